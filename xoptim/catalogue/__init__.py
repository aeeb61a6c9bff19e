"""The catalogue: the installed patterns, and the selection of those that run.

All patterns are in one `database`: a sequence of groups, one for each phase, and of passes over
whole models. Selections are queries of it: a text (``"default+onnxruntime-Gelu"``), a class, an
instance, or a list of these is read as a `Query`, dropped names are excluded by `Name`, and presets
are queries about the metadata of patterns. The words of a query:

- names, with or without the suffix ``Pattern``, and former names;
- presets: ``default`` (bit-identical or equal up to rounding, standard operators), ``onnxruntime``
  (equally safe, operators of that runtime), ``finite`` (needs finite numbers), ``approximate``,
  ``all``;
- profiles: ``fast_compile`` (cheap patterns: the exact ones of the phase ``canonicalize`` that make
  standard operators only) and ``fast_run`` (all safe patterns: ``default`` and ``onnxruntime``);
- tags, phases (``global`` for passes over whole models), exactness and status.
"""
