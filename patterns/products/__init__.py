"""Products of matrices: MatMul, Gemm, FusedMatMul, Einsum and Attention."""
