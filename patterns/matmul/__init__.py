"""Matrix multiplications: MatMul, Gemm, FusedMatMul, Einsum and Attention."""
