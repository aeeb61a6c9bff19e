"""What is known about operators: types and shapes of their results, and values of constants."""
