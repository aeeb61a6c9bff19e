"""Numbers, element by element: Add, Mul, Neg, Pow, Max, ..."""
