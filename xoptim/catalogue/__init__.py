"""Fourth floor: the installed patterns, and the selection of those that run.

All patterns are in one `database`: a sequence of groups, one for each phase, and of rewriters of whole models. A selection is
a text (``"default+onnxruntime-Gelu"``), a class, an instance, or a list of these, and is read as a `Query`; patterns that are
left out are excluded by `Name`, and presets are queries about the metadata of a pattern. The words of a query:

- names, with or without the suffix ``Pattern``, and former names;
- presets: ``default`` (bit-identical or equal up to rounding, standard operators), ``onnxruntime`` (as safe, operators of that
  runtime), ``finite`` (needs finite numbers), ``approximate``, ``all``;
- profiles: ``fast_compile`` (cheap patterns: exact ones of the phase ``canonicalize`` that make standard operators only)
  and ``fast_run`` (all safe patterns: ``default`` and ``onnxruntime``);
- tags, phases (``global`` for rewriters of whole models), exactness and status.
"""
