"""The catalogue: the installed rewrites, and the selection of those that run.

All rewrites are in one registry, in the order in which they run. A selection is a query of it: a
text (``"default+onnxruntime-Gelu"``), a class, an instance, or a list of these is read as a
`Query`, dropped names are excluded by `Name`, and presets are queries about metadata. The words of
a query:

- names, with or without the suffix ``Pattern``, and former names;
- presets: ``default`` (bit-identical or equal up to rounding, standard operators), ``onnxruntime``
  (equally safe, operators of that runtime), ``finite`` (needs finite numbers), ``approximate``,
  ``all``, ``fast_compile`` (cheap: the exact patterns of the phase ``canonicalize`` that make
  standard operators only) and ``fast_run`` (all that is safe: ``default`` and ``onnxruntime``);
- tags, phases (``global`` for passes over whole models), exactness and status.
"""
