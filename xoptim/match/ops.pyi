# Written by `python -m xoptim.scaffold.stubs` from the operators of onnx 1.23.2. Do not edit.
"""The operators of ``g.op``: a method for each operator, with the attributes of all versions."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar, overload

from xoptim.match.trace import Symbol

Result = TypeVar("Result")
_Pattern: TypeAlias = Operators[Symbol]
_Builder: TypeAlias = Operators[str]


class PatternOps(_Pattern):
    """The operators of `match_pattern`: attributes may be conditions."""


class BuilderOps(_Builder):
    """The operators of `apply_pattern` and of `GraphBuilder`."""


class Operators(Generic[Result]):
    """The operators of both, by the type of their results."""

    def __getattr__(self, op_type: str) -> Callable[..., Any]: ...
    def __getitem__(self, op_type: str) -> Callable[..., Any]: ...
    @overload
    def Abs(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Abs(X) → Y.

        Operator sets 1, 6, 13: https://onnx.ai/onnx/operators/onnx__Abs.html
        """
    @overload
    def Abs(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Abs(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Abs(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Acos(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Acos(input) → output.

        Operator sets 7, 22: https://onnx.ai/onnx/operators/onnx__Acos.html
        """
    @overload
    def Acos(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Acos(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Acos(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Acosh(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Acosh(input) → output.

        Operator sets 9, 22: https://onnx.ai/onnx/operators/onnx__Acosh.html
        """
    @overload
    def Acosh(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Acosh(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Acosh(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Add(self: _Pattern, A_: Any, B_: Any = ..., /, *, axis: Any = ..., broadcast: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Add(A, B) → C.

        Operator sets 1, 6, 7, 13, 14: https://onnx.ai/onnx/operators/onnx__Add.html
        - ``axis``: int
        - ``broadcast``: int = 0
        """
    @overload
    def Add(self: _Pattern, *operands: Any, associative: bool, axis: Any = ..., broadcast: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol: ...
    @overload
    def Add(self: _Builder, A_: Any, B_: Any, /, *, axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Add(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Add(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def AffineGrid(self: _Pattern, theta_: Any, size_: Any = ..., /, *, align_corners: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """AffineGrid(theta, size) → grid.

        Operator sets 20: https://onnx.ai/onnx/operators/onnx__AffineGrid.html
        - ``align_corners``: int = 0
        """
    @overload
    def AffineGrid(self: _Builder, theta_: Any, size_: Any, /, *, align_corners: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def AffineGrid(self: _Builder, *operands: Any, outputs: int | Sequence[str], align_corners: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def AffineGrid(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def And(self: _Pattern, A_: Any, B_: Any = ..., /, *, axis: Any = ..., broadcast: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """And(A, B) → C.

        Operator sets 1, 7: https://onnx.ai/onnx/operators/onnx__And.html
        - ``axis``: int
        - ``broadcast``: int = 0
        """
    @overload
    def And(self: _Pattern, *operands: Any, associative: bool, axis: Any = ..., broadcast: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol: ...
    @overload
    def And(self: _Builder, A_: Any, B_: Any, /, *, axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def And(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def And(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ArgMax(self: _Pattern, data_: Any, /, *, axis: Any = ..., keepdims: Any = ..., select_last_index: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ArgMax(data) → reduced.

        Operator sets 1, 11, 12, 13: https://onnx.ai/onnx/operators/onnx__ArgMax.html
        - ``axis``: int = 0
        - ``keepdims``: int = 1
        - ``select_last_index``: int = 0
        """
    @overload
    def ArgMax(self: _Builder, data_: Any, /, *, axis: int | None = ..., keepdims: int | None = ..., select_last_index: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def ArgMax(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., keepdims: int | None = ..., select_last_index: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ArgMax(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ArgMin(self: _Pattern, data_: Any, /, *, axis: Any = ..., keepdims: Any = ..., select_last_index: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ArgMin(data) → reduced.

        Operator sets 1, 11, 12, 13: https://onnx.ai/onnx/operators/onnx__ArgMin.html
        - ``axis``: int = 0
        - ``keepdims``: int = 1
        - ``select_last_index``: int = 0
        """
    @overload
    def ArgMin(self: _Builder, data_: Any, /, *, axis: int | None = ..., keepdims: int | None = ..., select_last_index: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def ArgMin(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., keepdims: int | None = ..., select_last_index: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ArgMin(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Asin(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Asin(input) → output.

        Operator sets 7, 22: https://onnx.ai/onnx/operators/onnx__Asin.html
        """
    @overload
    def Asin(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Asin(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Asin(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Asinh(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Asinh(input) → output.

        Operator sets 9, 22: https://onnx.ai/onnx/operators/onnx__Asinh.html
        """
    @overload
    def Asinh(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Asinh(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Asinh(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Atan(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Atan(input) → output.

        Operator sets 7, 22: https://onnx.ai/onnx/operators/onnx__Atan.html
        """
    @overload
    def Atan(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Atan(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Atan(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Atanh(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Atanh(input) → output.

        Operator sets 9, 22: https://onnx.ai/onnx/operators/onnx__Atanh.html
        """
    @overload
    def Atanh(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Atanh(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Atanh(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Attention(self: _Pattern, Q_: Any, K_: Any = ..., V_: Any = ..., attn_mask_: Any = ..., past_key_: Any = ..., past_value_: Any = ..., nonpad_kv_seqlen_: Any = ..., /, *, is_causal: Any = ..., kv_num_heads: Any = ..., left_window_size: Any = ..., q_num_heads: Any = ..., qk_matmul_output_mode: Any = ..., right_window_size: Any = ..., scale: Any = ..., softcap: Any = ..., softmax_precision: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Attention(Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen) → Y, present_key, present_value, qk_matmul_output.

        Operator sets 23, 24, 25: https://onnx.ai/onnx/operators/onnx__Attention.html
        - ``is_causal``: int = 0
        - ``kv_num_heads``: int
        - ``left_window_size``: int = -1
        - ``q_num_heads``: int
        - ``qk_matmul_output_mode``: int = 0
        - ``right_window_size``: int = -1
        - ``scale``: float
        - ``softcap``: float = 0.0
        - ``softmax_precision``: int
        """
    @overload
    def Attention(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], is_causal: Any = ..., kv_num_heads: Any = ..., left_window_size: Any = ..., q_num_heads: Any = ..., qk_matmul_output_mode: Any = ..., right_window_size: Any = ..., scale: Any = ..., softcap: Any = ..., softmax_precision: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def Attention(self: _Builder, Q_: Any, K_: Any, V_: Any, attn_mask_: Any = ..., past_key_: Any = ..., past_value_: Any = ..., nonpad_kv_seqlen_: Any = ..., /, *, is_causal: int | None = ..., kv_num_heads: int | None = ..., left_window_size: int | None = ..., q_num_heads: int | None = ..., qk_matmul_output_mode: int | None = ..., right_window_size: int | None = ..., scale: float | None = ..., softcap: float | None = ..., softmax_precision: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Attention(self: _Builder, *operands: Any, outputs: int | Sequence[str], is_causal: int | None = ..., kv_num_heads: int | None = ..., left_window_size: int | None = ..., q_num_heads: int | None = ..., qk_matmul_output_mode: int | None = ..., right_window_size: int | None = ..., scale: float | None = ..., softcap: float | None = ..., softmax_precision: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Attention(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def AveragePool(self: _Pattern, X_: Any, /, *, auto_pad: Any = ..., ceil_mode: Any = ..., count_include_pad: Any = ..., dilations: Any = ..., kernel_shape: Any = ..., pads: Any = ..., strides: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """AveragePool(X) → Y.

        Operator sets 1, 7, 10, 11, 19, 22: https://onnx.ai/onnx/operators/onnx__AveragePool.html
        - ``auto_pad``: str = 'NOTSET'
        - ``ceil_mode``: int = 0
        - ``count_include_pad``: int = 0
        - ``dilations``: Sequence[int]
        - ``kernel_shape``: Sequence[int], required
        - ``pads``: Sequence[int]
        - ``strides``: Sequence[int]
        """
    @overload
    def AveragePool(self: _Builder, X_: Any, /, *, auto_pad: str | None = ..., ceil_mode: int | None = ..., count_include_pad: int | None = ..., dilations: Sequence[int] | None = ..., kernel_shape: Sequence[int] | None = ..., pads: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def AveragePool(self: _Builder, *operands: Any, outputs: int | Sequence[str], auto_pad: str | None = ..., ceil_mode: int | None = ..., count_include_pad: int | None = ..., dilations: Sequence[int] | None = ..., kernel_shape: Sequence[int] | None = ..., pads: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def AveragePool(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def BatchNormalization(self: _Pattern, X_: Any, scale_: Any = ..., B_: Any = ..., input_mean_: Any = ..., input_var_: Any = ..., /, *, epsilon: Any = ..., is_test: Any = ..., momentum: Any = ..., spatial: Any = ..., training_mode: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """BatchNormalization(X, scale, B, input_mean, input_var) → Y, running_mean, running_var.

        Operator sets 1, 6, 7, 9, 14, 15: https://onnx.ai/onnx/operators/onnx__BatchNormalization.html
        - ``epsilon``: float = 9.999999747378752e-06
        - ``is_test``: int = 0
        - ``momentum``: float = 0.8999999761581421
        - ``spatial``: int = 1
        - ``training_mode``: int = 0
        """
    @overload
    def BatchNormalization(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], epsilon: Any = ..., is_test: Any = ..., momentum: Any = ..., spatial: Any = ..., training_mode: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def BatchNormalization(self: _Builder, X_: Any, scale_: Any, B_: Any, input_mean_: Any, input_var_: Any, /, *, epsilon: float | None = ..., is_test: int | None = ..., momentum: float | None = ..., spatial: int | None = ..., training_mode: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def BatchNormalization(self: _Builder, *operands: Any, outputs: int | Sequence[str], epsilon: float | None = ..., is_test: int | None = ..., momentum: float | None = ..., spatial: int | None = ..., training_mode: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def BatchNormalization(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Bernoulli(self: _Pattern, input_: Any, /, *, dtype: Any = ..., seed: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Bernoulli(input) → output.

        Operator sets 15, 22: https://onnx.ai/onnx/operators/onnx__Bernoulli.html
        - ``dtype``: int
        - ``seed``: float
        """
    @overload
    def Bernoulli(self: _Builder, input_: Any, /, *, dtype: int | None = ..., seed: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def Bernoulli(self: _Builder, *operands: Any, outputs: int | Sequence[str], dtype: int | None = ..., seed: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Bernoulli(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def BitCast(self: _Pattern, input_: Any, /, *, to: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """BitCast(input) → output.

        Operator sets 26: https://onnx.ai/onnx/operators/onnx__BitCast.html
        - ``to``: int, required
        """
    @overload
    def BitCast(self: _Builder, input_: Any, /, *, to: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def BitCast(self: _Builder, *operands: Any, outputs: int | Sequence[str], to: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def BitCast(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def BitShift(self: _Pattern, X_: Any, Y_: Any = ..., /, *, direction: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """BitShift(X, Y) → Z.

        Operator sets 11, 28: https://onnx.ai/onnx/operators/onnx__BitShift.html
        - ``direction``: str, required
        """
    @overload
    def BitShift(self: _Builder, X_: Any, Y_: Any, /, *, direction: str | None = ..., name: Any = ...) -> str: ...
    @overload
    def BitShift(self: _Builder, *operands: Any, outputs: int | Sequence[str], direction: str | None = ..., name: Any = ...) -> Any: ...
    @overload
    def BitShift(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def BitwiseAnd(self: _Pattern, A_: Any, B_: Any = ..., /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """BitwiseAnd(A, B) → C.

        Operator sets 18: https://onnx.ai/onnx/operators/onnx__BitwiseAnd.html
        """
    @overload
    def BitwiseAnd(self: _Pattern, *operands: Any, associative: bool, attributes: Any = ..., any_order: Any = ...) -> Symbol: ...
    @overload
    def BitwiseAnd(self: _Builder, A_: Any, B_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def BitwiseAnd(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def BitwiseAnd(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def BitwiseNot(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """BitwiseNot(X) → Y.

        Operator sets 18: https://onnx.ai/onnx/operators/onnx__BitwiseNot.html
        """
    @overload
    def BitwiseNot(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def BitwiseNot(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def BitwiseNot(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def BitwiseOr(self: _Pattern, A_: Any, B_: Any = ..., /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """BitwiseOr(A, B) → C.

        Operator sets 18: https://onnx.ai/onnx/operators/onnx__BitwiseOr.html
        """
    @overload
    def BitwiseOr(self: _Pattern, *operands: Any, associative: bool, attributes: Any = ..., any_order: Any = ...) -> Symbol: ...
    @overload
    def BitwiseOr(self: _Builder, A_: Any, B_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def BitwiseOr(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def BitwiseOr(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def BitwiseXor(self: _Pattern, A_: Any, B_: Any = ..., /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """BitwiseXor(A, B) → C.

        Operator sets 18: https://onnx.ai/onnx/operators/onnx__BitwiseXor.html
        """
    @overload
    def BitwiseXor(self: _Pattern, *operands: Any, associative: bool, attributes: Any = ..., any_order: Any = ...) -> Symbol: ...
    @overload
    def BitwiseXor(self: _Builder, A_: Any, B_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def BitwiseXor(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def BitwiseXor(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def BlackmanWindow(self: _Pattern, size_: Any, /, *, output_datatype: Any = ..., periodic: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """BlackmanWindow(size) → output.

        Operator sets 17: https://onnx.ai/onnx/operators/onnx__BlackmanWindow.html
        - ``output_datatype``: int = 1
        - ``periodic``: int = 1
        """
    @overload
    def BlackmanWindow(self: _Builder, size_: Any, /, *, output_datatype: int | None = ..., periodic: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def BlackmanWindow(self: _Builder, *operands: Any, outputs: int | Sequence[str], output_datatype: int | None = ..., periodic: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def BlackmanWindow(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Cast(self: _Pattern, input_: Any, /, *, round_mode: Any = ..., saturate: Any = ..., to: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Cast(input) → output.

        Operator sets 1, 6, 9, 13, 19, 21, 23, 24, 25, 28: https://onnx.ai/onnx/operators/onnx__Cast.html
        - ``round_mode``: str = 'up'
        - ``saturate``: int = 1
        - ``to``: int, required
        """
    @overload
    def Cast(self: _Builder, input_: Any, /, *, round_mode: str | None = ..., saturate: int | None = ..., to: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Cast(self: _Builder, *operands: Any, outputs: int | Sequence[str], round_mode: str | None = ..., saturate: int | None = ..., to: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Cast(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def CastLike(self: _Pattern, input_: Any, target_type_: Any = ..., /, *, round_mode: Any = ..., saturate: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """CastLike(input, target_type) → output.

        Operator sets 15, 19, 21, 23, 24, 25: https://onnx.ai/onnx/operators/onnx__CastLike.html
        - ``round_mode``: str = 'up'
        - ``saturate``: int = 1
        """
    @overload
    def CastLike(self: _Builder, input_: Any, target_type_: Any, /, *, round_mode: str | None = ..., saturate: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def CastLike(self: _Builder, *operands: Any, outputs: int | Sequence[str], round_mode: str | None = ..., saturate: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def CastLike(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def CausalConvWithState(self: _Pattern, input_: Any, weight_: Any = ..., bias_: Any = ..., past_state_: Any = ..., /, *, activation: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """CausalConvWithState(input, weight, bias, past_state) → output, present_state.

        Operator sets 27: https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html
        - ``activation``: str = 'none'
        """
    @overload
    def CausalConvWithState(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], activation: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def CausalConvWithState(self: _Builder, input_: Any, weight_: Any, bias_: Any = ..., past_state_: Any = ..., /, *, activation: str | None = ..., name: Any = ...) -> str: ...
    @overload
    def CausalConvWithState(self: _Builder, *operands: Any, outputs: int | Sequence[str], activation: str | None = ..., name: Any = ...) -> Any: ...
    @overload
    def CausalConvWithState(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Ceil(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Ceil(X) → Y.

        Operator sets 1, 6, 13: https://onnx.ai/onnx/operators/onnx__Ceil.html
        """
    @overload
    def Ceil(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Ceil(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Ceil(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Celu(self: _Pattern, X_: Any, /, *, alpha: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Celu(X) → Y.

        Operator sets 12, 28: https://onnx.ai/onnx/operators/onnx__Celu.html
        - ``alpha``: float = 1.0
        """
    @overload
    def Celu(self: _Builder, X_: Any, /, *, alpha: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def Celu(self: _Builder, *operands: Any, outputs: int | Sequence[str], alpha: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Celu(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def CenterCropPad(self: _Pattern, input_data_: Any, shape_: Any = ..., /, *, axes: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """CenterCropPad(input_data, shape) → output_data.

        Operator sets 18: https://onnx.ai/onnx/operators/onnx__CenterCropPad.html
        - ``axes``: Sequence[int]
        """
    @overload
    def CenterCropPad(self: _Builder, input_data_: Any, shape_: Any, /, *, axes: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def CenterCropPad(self: _Builder, *operands: Any, outputs: int | Sequence[str], axes: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def CenterCropPad(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Clip(self: _Pattern, input_: Any, min_: Any = ..., max_: Any = ..., /, *, max: Any = ..., min: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Clip(input, min, max) → output.

        Operator sets 1, 6, 11, 12, 13: https://onnx.ai/onnx/operators/onnx__Clip.html
        - ``max``: float = 3.4028234663852886e+38
        - ``min``: float = -3.4028234663852886e+38
        """
    @overload
    def Clip(self: _Builder, input_: Any, min_: Any = ..., max_: Any = ..., /, *, max: float | None = ..., min: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def Clip(self: _Builder, *operands: Any, outputs: int | Sequence[str], max: float | None = ..., min: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Clip(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Col2Im(self: _Pattern, input_: Any, image_shape_: Any = ..., block_shape_: Any = ..., /, *, dilations: Any = ..., pads: Any = ..., strides: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Col2Im(input, image_shape, block_shape) → output.

        Operator sets 18: https://onnx.ai/onnx/operators/onnx__Col2Im.html
        - ``dilations``: Sequence[int]
        - ``pads``: Sequence[int]
        - ``strides``: Sequence[int]
        """
    @overload
    def Col2Im(self: _Builder, input_: Any, image_shape_: Any, block_shape_: Any, /, *, dilations: Sequence[int] | None = ..., pads: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def Col2Im(self: _Builder, *operands: Any, outputs: int | Sequence[str], dilations: Sequence[int] | None = ..., pads: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Col2Im(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Compress(self: _Pattern, input_: Any, condition_: Any = ..., /, *, axis: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Compress(input, condition) → output.

        Operator sets 9, 11, 28: https://onnx.ai/onnx/operators/onnx__Compress.html
        - ``axis``: int
        """
    @overload
    def Compress(self: _Builder, input_: Any, condition_: Any, /, *, axis: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Compress(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Compress(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Concat(self: _Pattern, *inputs: Any, axis: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Concat(inputs) → concat_result.

        Operator sets 1, 4, 11, 13: https://onnx.ai/onnx/operators/onnx__Concat.html
        - ``axis``: int, required
        """
    @overload
    def Concat(self: _Builder, *inputs: Any, axis: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Concat(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Concat(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ConcatFromSequence(self: _Pattern, input_sequence_: Any, /, *, axis: Any = ..., new_axis: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ConcatFromSequence(input_sequence) → concat_result.

        Operator sets 11: https://onnx.ai/onnx/operators/onnx__ConcatFromSequence.html
        - ``axis``: int, required
        - ``new_axis``: int = 0
        """
    @overload
    def ConcatFromSequence(self: _Builder, input_sequence_: Any, /, *, axis: int | None = ..., new_axis: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def ConcatFromSequence(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., new_axis: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ConcatFromSequence(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Constant(self: _Pattern, *, sparse_value: Any = ..., value: Any = ..., value_float: Any = ..., value_floats: Any = ..., value_int: Any = ..., value_ints: Any = ..., value_string: Any = ..., value_strings: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Constant() → output.

        Operator sets 1, 9, 11, 12, 13, 19, 21, 23, 24, 25: https://onnx.ai/onnx/operators/onnx__Constant.html
        - ``sparse_value``: Any
        - ``value``: Any
        - ``value_float``: float
        - ``value_floats``: Sequence[float]
        - ``value_int``: int
        - ``value_ints``: Sequence[int]
        - ``value_string``: str
        - ``value_strings``: Sequence[str]
        """
    @overload
    def Constant(self: _Builder, *, sparse_value: Any | None = ..., value: Any | None = ..., value_float: float | None = ..., value_floats: Sequence[float] | None = ..., value_int: int | None = ..., value_ints: Sequence[int] | None = ..., value_string: str | None = ..., value_strings: Sequence[str] | None = ..., name: Any = ...) -> str: ...
    @overload
    def Constant(self: _Builder, *operands: Any, outputs: int | Sequence[str], sparse_value: Any | None = ..., value: Any | None = ..., value_float: float | None = ..., value_floats: Sequence[float] | None = ..., value_int: int | None = ..., value_ints: Sequence[int] | None = ..., value_string: str | None = ..., value_strings: Sequence[str] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Constant(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ConstantOfShape(self: _Pattern, input_: Any, /, *, value: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ConstantOfShape(input) → output.

        Operator sets 9, 20, 21, 23, 24, 25: https://onnx.ai/onnx/operators/onnx__ConstantOfShape.html
        - ``value``: Any
        """
    @overload
    def ConstantOfShape(self: _Builder, input_: Any, /, *, value: Any | None = ..., name: Any = ...) -> str: ...
    @overload
    def ConstantOfShape(self: _Builder, *operands: Any, outputs: int | Sequence[str], value: Any | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ConstantOfShape(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Conv(self: _Pattern, X_: Any, W_: Any = ..., B_: Any = ..., /, *, auto_pad: Any = ..., dilations: Any = ..., group: Any = ..., kernel_shape: Any = ..., pads: Any = ..., strides: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Conv(X, W, B) → Y.

        Operator sets 1, 11, 22: https://onnx.ai/onnx/operators/onnx__Conv.html
        - ``auto_pad``: str = 'NOTSET'
        - ``dilations``: Sequence[int]
        - ``group``: int = 1
        - ``kernel_shape``: Sequence[int]
        - ``pads``: Sequence[int]
        - ``strides``: Sequence[int]
        """
    @overload
    def Conv(self: _Builder, X_: Any, W_: Any, B_: Any = ..., /, *, auto_pad: str | None = ..., dilations: Sequence[int] | None = ..., group: int | None = ..., kernel_shape: Sequence[int] | None = ..., pads: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def Conv(self: _Builder, *operands: Any, outputs: int | Sequence[str], auto_pad: str | None = ..., dilations: Sequence[int] | None = ..., group: int | None = ..., kernel_shape: Sequence[int] | None = ..., pads: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Conv(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ConvInteger(self: _Pattern, x_: Any, w_: Any = ..., x_zero_point_: Any = ..., w_zero_point_: Any = ..., /, *, auto_pad: Any = ..., dilations: Any = ..., group: Any = ..., kernel_shape: Any = ..., pads: Any = ..., strides: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ConvInteger(x, w, x_zero_point, w_zero_point) → y.

        Operator sets 10: https://onnx.ai/onnx/operators/onnx__ConvInteger.html
        - ``auto_pad``: str = 'NOTSET'
        - ``dilations``: Sequence[int]
        - ``group``: int = 1
        - ``kernel_shape``: Sequence[int]
        - ``pads``: Sequence[int]
        - ``strides``: Sequence[int]
        """
    @overload
    def ConvInteger(self: _Builder, x_: Any, w_: Any, x_zero_point_: Any = ..., w_zero_point_: Any = ..., /, *, auto_pad: str | None = ..., dilations: Sequence[int] | None = ..., group: int | None = ..., kernel_shape: Sequence[int] | None = ..., pads: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def ConvInteger(self: _Builder, *operands: Any, outputs: int | Sequence[str], auto_pad: str | None = ..., dilations: Sequence[int] | None = ..., group: int | None = ..., kernel_shape: Sequence[int] | None = ..., pads: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ConvInteger(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ConvTranspose(self: _Pattern, X_: Any, W_: Any = ..., B_: Any = ..., /, *, auto_pad: Any = ..., dilations: Any = ..., group: Any = ..., kernel_shape: Any = ..., output_padding: Any = ..., output_shape: Any = ..., pads: Any = ..., strides: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ConvTranspose(X, W, B) → Y.

        Operator sets 1, 11, 22: https://onnx.ai/onnx/operators/onnx__ConvTranspose.html
        - ``auto_pad``: str = 'NOTSET'
        - ``dilations``: Sequence[int]
        - ``group``: int = 1
        - ``kernel_shape``: Sequence[int]
        - ``output_padding``: Sequence[int]
        - ``output_shape``: Sequence[int]
        - ``pads``: Sequence[int]
        - ``strides``: Sequence[int]
        """
    @overload
    def ConvTranspose(self: _Builder, X_: Any, W_: Any, B_: Any = ..., /, *, auto_pad: str | None = ..., dilations: Sequence[int] | None = ..., group: int | None = ..., kernel_shape: Sequence[int] | None = ..., output_padding: Sequence[int] | None = ..., output_shape: Sequence[int] | None = ..., pads: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def ConvTranspose(self: _Builder, *operands: Any, outputs: int | Sequence[str], auto_pad: str | None = ..., dilations: Sequence[int] | None = ..., group: int | None = ..., kernel_shape: Sequence[int] | None = ..., output_padding: Sequence[int] | None = ..., output_shape: Sequence[int] | None = ..., pads: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ConvTranspose(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Cos(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Cos(input) → output.

        Operator sets 7, 22: https://onnx.ai/onnx/operators/onnx__Cos.html
        """
    @overload
    def Cos(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Cos(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Cos(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Cosh(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Cosh(input) → output.

        Operator sets 9, 22: https://onnx.ai/onnx/operators/onnx__Cosh.html
        """
    @overload
    def Cosh(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Cosh(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Cosh(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def CumProd(self: _Pattern, x_: Any, axis_: Any = ..., /, *, exclusive: Any = ..., reverse: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """CumProd(x, axis) → y.

        Operator sets 26: https://onnx.ai/onnx/operators/onnx__CumProd.html
        - ``exclusive``: int = 0
        - ``reverse``: int = 0
        """
    @overload
    def CumProd(self: _Builder, x_: Any, axis_: Any, /, *, exclusive: int | None = ..., reverse: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def CumProd(self: _Builder, *operands: Any, outputs: int | Sequence[str], exclusive: int | None = ..., reverse: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def CumProd(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def CumSum(self: _Pattern, x_: Any, axis_: Any = ..., /, *, exclusive: Any = ..., reverse: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """CumSum(x, axis) → y.

        Operator sets 11, 14: https://onnx.ai/onnx/operators/onnx__CumSum.html
        - ``exclusive``: int = 0
        - ``reverse``: int = 0
        """
    @overload
    def CumSum(self: _Builder, x_: Any, axis_: Any, /, *, exclusive: int | None = ..., reverse: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def CumSum(self: _Builder, *operands: Any, outputs: int | Sequence[str], exclusive: int | None = ..., reverse: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def CumSum(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def DFT(self: _Pattern, input_: Any, dft_length_: Any = ..., axis_: Any = ..., /, *, axis: Any = ..., inverse: Any = ..., onesided: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """DFT(input, dft_length, axis) → output.

        Operator sets 17, 20: https://onnx.ai/onnx/operators/onnx__DFT.html
        - ``axis``: int = 1
        - ``inverse``: int = 0
        - ``onesided``: int = 0
        """
    @overload
    def DFT(self: _Builder, input_: Any, dft_length_: Any = ..., axis_: Any = ..., /, *, axis: int | None = ..., inverse: int | None = ..., onesided: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def DFT(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., inverse: int | None = ..., onesided: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def DFT(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def DeformConv(self: _Pattern, X_: Any, W_: Any = ..., offset_: Any = ..., B_: Any = ..., mask_: Any = ..., /, *, dilations: Any = ..., group: Any = ..., kernel_shape: Any = ..., offset_group: Any = ..., pads: Any = ..., strides: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """DeformConv(X, W, offset, B, mask) → Y.

        Operator sets 19, 22: https://onnx.ai/onnx/operators/onnx__DeformConv.html
        - ``dilations``: Sequence[int]
        - ``group``: int = 1
        - ``kernel_shape``: Sequence[int]
        - ``offset_group``: int = 1
        - ``pads``: Sequence[int]
        - ``strides``: Sequence[int]
        """
    @overload
    def DeformConv(self: _Builder, X_: Any, W_: Any, offset_: Any, B_: Any = ..., mask_: Any = ..., /, *, dilations: Sequence[int] | None = ..., group: int | None = ..., kernel_shape: Sequence[int] | None = ..., offset_group: int | None = ..., pads: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def DeformConv(self: _Builder, *operands: Any, outputs: int | Sequence[str], dilations: Sequence[int] | None = ..., group: int | None = ..., kernel_shape: Sequence[int] | None = ..., offset_group: int | None = ..., pads: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def DeformConv(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def DepthToSpace(self: _Pattern, input_: Any, /, *, blocksize: Any = ..., mode: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """DepthToSpace(input) → output.

        Operator sets 1, 11, 13, 28: https://onnx.ai/onnx/operators/onnx__DepthToSpace.html
        - ``blocksize``: int, required
        - ``mode``: str = 'DCR'
        """
    @overload
    def DepthToSpace(self: _Builder, input_: Any, /, *, blocksize: int | None = ..., mode: str | None = ..., name: Any = ...) -> str: ...
    @overload
    def DepthToSpace(self: _Builder, *operands: Any, outputs: int | Sequence[str], blocksize: int | None = ..., mode: str | None = ..., name: Any = ...) -> Any: ...
    @overload
    def DepthToSpace(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def DequantizeLinear(self: _Pattern, x_: Any, x_scale_: Any = ..., x_zero_point_: Any = ..., /, *, axis: Any = ..., block_size: Any = ..., output_dtype: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """DequantizeLinear(x, x_scale, x_zero_point) → y.

        Operator sets 10, 13, 19, 21, 23, 24, 25, 28: https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html
        - ``axis``: int = 1
        - ``block_size``: int = 0
        - ``output_dtype``: int = 0
        """
    @overload
    def DequantizeLinear(self: _Builder, x_: Any, x_scale_: Any, x_zero_point_: Any = ..., /, *, axis: int | None = ..., block_size: int | None = ..., output_dtype: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def DequantizeLinear(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., block_size: int | None = ..., output_dtype: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def DequantizeLinear(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Det(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Det(X) → Y.

        Operator sets 11, 22: https://onnx.ai/onnx/operators/onnx__Det.html
        """
    @overload
    def Det(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Det(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Det(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Div(self: _Pattern, A_: Any, B_: Any = ..., /, *, axis: Any = ..., broadcast: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Div(A, B) → C.

        Operator sets 1, 6, 7, 13, 14: https://onnx.ai/onnx/operators/onnx__Div.html
        - ``axis``: int
        - ``broadcast``: int = 0
        """
    @overload
    def Div(self: _Builder, A_: Any, B_: Any, /, *, axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Div(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Div(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Dropout(self: _Pattern, data_: Any, ratio_: Any = ..., training_mode_: Any = ..., /, *, is_test: Any = ..., ratio: Any = ..., seed: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Dropout(data, ratio, training_mode) → output, mask.

        Operator sets 1, 6, 7, 10, 12, 13, 22: https://onnx.ai/onnx/operators/onnx__Dropout.html
        - ``is_test``: int = 0
        - ``ratio``: float = 0.5
        - ``seed``: int
        """
    @overload
    def Dropout(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], is_test: Any = ..., ratio: Any = ..., seed: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def Dropout(self: _Builder, data_: Any, ratio_: Any = ..., training_mode_: Any = ..., /, *, is_test: int | None = ..., ratio: float | None = ..., seed: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Dropout(self: _Builder, *operands: Any, outputs: int | Sequence[str], is_test: int | None = ..., ratio: float | None = ..., seed: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Dropout(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def DynamicQuantizeLinear(self: _Pattern, x_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """DynamicQuantizeLinear(x) → y, y_scale, y_zero_point.

        Operator sets 11: https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html
        """
    @overload
    def DynamicQuantizeLinear(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def DynamicQuantizeLinear(self: _Builder, x_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def DynamicQuantizeLinear(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def DynamicQuantizeLinear(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Einsum(self: _Pattern, *Inputs: Any, equation: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Einsum(Inputs) → Output.

        Operator sets 12, 28: https://onnx.ai/onnx/operators/onnx__Einsum.html
        - ``equation``: str, required
        """
    @overload
    def Einsum(self: _Builder, *Inputs: Any, equation: str | None = ..., name: Any = ...) -> str: ...
    @overload
    def Einsum(self: _Builder, *operands: Any, outputs: int | Sequence[str], equation: str | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Einsum(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Elu(self: _Pattern, X_: Any, /, *, alpha: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Elu(X) → Y.

        Operator sets 1, 6, 22: https://onnx.ai/onnx/operators/onnx__Elu.html
        - ``alpha``: float = 1.0
        """
    @overload
    def Elu(self: _Builder, X_: Any, /, *, alpha: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def Elu(self: _Builder, *operands: Any, outputs: int | Sequence[str], alpha: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Elu(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Equal(self: _Pattern, A_: Any, B_: Any = ..., /, *, axis: Any = ..., broadcast: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Equal(A, B) → C.

        Operator sets 1, 7, 11, 13, 19: https://onnx.ai/onnx/operators/onnx__Equal.html
        - ``axis``: int
        - ``broadcast``: int = 0
        """
    @overload
    def Equal(self: _Builder, A_: Any, B_: Any, /, *, axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Equal(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Equal(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Erf(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Erf(input) → output.

        Operator sets 9, 13: https://onnx.ai/onnx/operators/onnx__Erf.html
        """
    @overload
    def Erf(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Erf(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Erf(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Exp(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Exp(input) → output.

        Operator sets 1, 6, 13: https://onnx.ai/onnx/operators/onnx__Exp.html
        """
    @overload
    def Exp(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Exp(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Exp(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Expand(self: _Pattern, input_: Any, shape_: Any = ..., /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Expand(input, shape) → output.

        Operator sets 8, 13: https://onnx.ai/onnx/operators/onnx__Expand.html
        """
    @overload
    def Expand(self: _Builder, input_: Any, shape_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Expand(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Expand(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def EyeLike(self: _Pattern, input_: Any, /, *, dtype: Any = ..., k: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """EyeLike(input) → output.

        Operator sets 9, 22: https://onnx.ai/onnx/operators/onnx__EyeLike.html
        - ``dtype``: int
        - ``k``: int = 0
        """
    @overload
    def EyeLike(self: _Builder, input_: Any, /, *, dtype: int | None = ..., k: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def EyeLike(self: _Builder, *operands: Any, outputs: int | Sequence[str], dtype: int | None = ..., k: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def EyeLike(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Flatten(self: _Pattern, input_: Any, /, *, axis: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Flatten(input) → output.

        Operator sets 1, 9, 11, 13, 21, 23, 24, 25: https://onnx.ai/onnx/operators/onnx__Flatten.html
        - ``axis``: int = 1
        """
    @overload
    def Flatten(self: _Builder, input_: Any, /, *, axis: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Flatten(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Flatten(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Floor(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Floor(X) → Y.

        Operator sets 1, 6, 13: https://onnx.ai/onnx/operators/onnx__Floor.html
        """
    @overload
    def Floor(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Floor(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Floor(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def GRU(self: _Pattern, X_: Any, W_: Any = ..., R_: Any = ..., B_: Any = ..., sequence_lens_: Any = ..., initial_h_: Any = ..., /, *, activation_alpha: Any = ..., activation_beta: Any = ..., activations: Any = ..., clip: Any = ..., direction: Any = ..., hidden_size: Any = ..., layout: Any = ..., linear_before_reset: Any = ..., output_sequence: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """GRU(X, W, R, B, sequence_lens, initial_h) → Y, Y_h.

        Operator sets 1, 3, 7, 14, 22: https://onnx.ai/onnx/operators/onnx__GRU.html
        - ``activation_alpha``: Sequence[float]
        - ``activation_beta``: Sequence[float]
        - ``activations``: Sequence[str]
        - ``clip``: float
        - ``direction``: str = 'forward'
        - ``hidden_size``: int
        - ``layout``: int = 0
        - ``linear_before_reset``: int = 0
        - ``output_sequence``: int = 0
        """
    @overload
    def GRU(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], activation_alpha: Any = ..., activation_beta: Any = ..., activations: Any = ..., clip: Any = ..., direction: Any = ..., hidden_size: Any = ..., layout: Any = ..., linear_before_reset: Any = ..., output_sequence: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def GRU(self: _Builder, X_: Any, W_: Any, R_: Any, B_: Any = ..., sequence_lens_: Any = ..., initial_h_: Any = ..., /, *, activation_alpha: Sequence[float] | None = ..., activation_beta: Sequence[float] | None = ..., activations: Sequence[str] | None = ..., clip: float | None = ..., direction: str | None = ..., hidden_size: int | None = ..., layout: int | None = ..., linear_before_reset: int | None = ..., output_sequence: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def GRU(self: _Builder, *operands: Any, outputs: int | Sequence[str], activation_alpha: Sequence[float] | None = ..., activation_beta: Sequence[float] | None = ..., activations: Sequence[str] | None = ..., clip: float | None = ..., direction: str | None = ..., hidden_size: int | None = ..., layout: int | None = ..., linear_before_reset: int | None = ..., output_sequence: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def GRU(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Gather(self: _Pattern, data_: Any, indices_: Any = ..., /, *, axis: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Gather(data, indices) → output.

        Operator sets 1, 11, 13: https://onnx.ai/onnx/operators/onnx__Gather.html
        - ``axis``: int = 0
        """
    @overload
    def Gather(self: _Builder, data_: Any, indices_: Any, /, *, axis: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Gather(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Gather(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def GatherElements(self: _Pattern, data_: Any, indices_: Any = ..., /, *, axis: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """GatherElements(data, indices) → output.

        Operator sets 11, 13: https://onnx.ai/onnx/operators/onnx__GatherElements.html
        - ``axis``: int = 0
        """
    @overload
    def GatherElements(self: _Builder, data_: Any, indices_: Any, /, *, axis: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def GatherElements(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def GatherElements(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def GatherND(self: _Pattern, data_: Any, indices_: Any = ..., /, *, batch_dims: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """GatherND(data, indices) → output.

        Operator sets 11, 12, 13: https://onnx.ai/onnx/operators/onnx__GatherND.html
        - ``batch_dims``: int = 0
        """
    @overload
    def GatherND(self: _Builder, data_: Any, indices_: Any, /, *, batch_dims: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def GatherND(self: _Builder, *operands: Any, outputs: int | Sequence[str], batch_dims: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def GatherND(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Gelu(self: _Pattern, X_: Any, /, *, approximate: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Gelu(X) → Y.

        Operator sets 20: https://onnx.ai/onnx/operators/onnx__Gelu.html
        - ``approximate``: str = 'none'
        """
    @overload
    def Gelu(self: _Builder, X_: Any, /, *, approximate: str | None = ..., name: Any = ...) -> str: ...
    @overload
    def Gelu(self: _Builder, *operands: Any, outputs: int | Sequence[str], approximate: str | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Gelu(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Gemm(self: _Pattern, A_: Any, B_: Any = ..., C_: Any = ..., /, *, alpha: Any = ..., beta: Any = ..., broadcast: Any = ..., transA: Any = ..., transB: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Gemm(A, B, C) → Y.

        Operator sets 1, 6, 7, 9, 11, 13: https://onnx.ai/onnx/operators/onnx__Gemm.html
        - ``alpha``: float = 1.0
        - ``beta``: float = 1.0
        - ``broadcast``: int = 0
        - ``transA``: int = 0
        - ``transB``: int = 0
        """
    @overload
    def Gemm(self: _Builder, A_: Any, B_: Any, C_: Any = ..., /, *, alpha: float | None = ..., beta: float | None = ..., broadcast: int | None = ..., transA: int | None = ..., transB: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Gemm(self: _Builder, *operands: Any, outputs: int | Sequence[str], alpha: float | None = ..., beta: float | None = ..., broadcast: int | None = ..., transA: int | None = ..., transB: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Gemm(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def GlobalAveragePool(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """GlobalAveragePool(X) → Y.

        Operator sets 1, 22: https://onnx.ai/onnx/operators/onnx__GlobalAveragePool.html
        """
    @overload
    def GlobalAveragePool(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def GlobalAveragePool(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def GlobalAveragePool(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def GlobalLpPool(self: _Pattern, X_: Any, /, *, p: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """GlobalLpPool(X) → Y.

        Operator sets 1, 2, 22: https://onnx.ai/onnx/operators/onnx__GlobalLpPool.html
        - ``p``: int = 2
        """
    @overload
    def GlobalLpPool(self: _Builder, X_: Any, /, *, p: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def GlobalLpPool(self: _Builder, *operands: Any, outputs: int | Sequence[str], p: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def GlobalLpPool(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def GlobalMaxPool(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """GlobalMaxPool(X) → Y.

        Operator sets 1, 22: https://onnx.ai/onnx/operators/onnx__GlobalMaxPool.html
        """
    @overload
    def GlobalMaxPool(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def GlobalMaxPool(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def GlobalMaxPool(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Greater(self: _Pattern, A_: Any, B_: Any = ..., /, *, axis: Any = ..., broadcast: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Greater(A, B) → C.

        Operator sets 1, 7, 9, 13: https://onnx.ai/onnx/operators/onnx__Greater.html
        - ``axis``: int
        - ``broadcast``: int = 0
        """
    @overload
    def Greater(self: _Builder, A_: Any, B_: Any, /, *, axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Greater(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Greater(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def GreaterOrEqual(self: _Pattern, A_: Any, B_: Any = ..., /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """GreaterOrEqual(A, B) → C.

        Operator sets 12, 16: https://onnx.ai/onnx/operators/onnx__GreaterOrEqual.html
        """
    @overload
    def GreaterOrEqual(self: _Builder, A_: Any, B_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def GreaterOrEqual(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def GreaterOrEqual(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def GridSample(self: _Pattern, X_: Any, grid_: Any = ..., /, *, align_corners: Any = ..., mode: Any = ..., padding_mode: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """GridSample(X, grid) → Y.

        Operator sets 16, 20, 22: https://onnx.ai/onnx/operators/onnx__GridSample.html
        - ``align_corners``: int = 0
        - ``mode``: str = 'linear'
        - ``padding_mode``: str = 'zeros'
        """
    @overload
    def GridSample(self: _Builder, X_: Any, grid_: Any, /, *, align_corners: int | None = ..., mode: str | None = ..., padding_mode: str | None = ..., name: Any = ...) -> str: ...
    @overload
    def GridSample(self: _Builder, *operands: Any, outputs: int | Sequence[str], align_corners: int | None = ..., mode: str | None = ..., padding_mode: str | None = ..., name: Any = ...) -> Any: ...
    @overload
    def GridSample(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def GroupNormalization(self: _Pattern, X_: Any, scale_: Any = ..., bias_: Any = ..., /, *, epsilon: Any = ..., num_groups: Any = ..., stash_type: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """GroupNormalization(X, scale, bias) → Y.

        Operator sets 18, 21: https://onnx.ai/onnx/operators/onnx__GroupNormalization.html
        - ``epsilon``: float = 9.999999747378752e-06
        - ``num_groups``: int, required
        - ``stash_type``: int = 1
        """
    @overload
    def GroupNormalization(self: _Builder, X_: Any, scale_: Any, bias_: Any, /, *, epsilon: float | None = ..., num_groups: int | None = ..., stash_type: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def GroupNormalization(self: _Builder, *operands: Any, outputs: int | Sequence[str], epsilon: float | None = ..., num_groups: int | None = ..., stash_type: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def GroupNormalization(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def HammingWindow(self: _Pattern, size_: Any, /, *, output_datatype: Any = ..., periodic: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """HammingWindow(size) → output.

        Operator sets 17: https://onnx.ai/onnx/operators/onnx__HammingWindow.html
        - ``output_datatype``: int = 1
        - ``periodic``: int = 1
        """
    @overload
    def HammingWindow(self: _Builder, size_: Any, /, *, output_datatype: int | None = ..., periodic: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def HammingWindow(self: _Builder, *operands: Any, outputs: int | Sequence[str], output_datatype: int | None = ..., periodic: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def HammingWindow(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def HannWindow(self: _Pattern, size_: Any, /, *, output_datatype: Any = ..., periodic: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """HannWindow(size) → output.

        Operator sets 17: https://onnx.ai/onnx/operators/onnx__HannWindow.html
        - ``output_datatype``: int = 1
        - ``periodic``: int = 1
        """
    @overload
    def HannWindow(self: _Builder, size_: Any, /, *, output_datatype: int | None = ..., periodic: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def HannWindow(self: _Builder, *operands: Any, outputs: int | Sequence[str], output_datatype: int | None = ..., periodic: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def HannWindow(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def HardSigmoid(self: _Pattern, X_: Any, /, *, alpha: Any = ..., beta: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """HardSigmoid(X) → Y.

        Operator sets 1, 6, 22: https://onnx.ai/onnx/operators/onnx__HardSigmoid.html
        - ``alpha``: float = 0.20000000298023224
        - ``beta``: float = 0.5
        """
    @overload
    def HardSigmoid(self: _Builder, X_: Any, /, *, alpha: float | None = ..., beta: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def HardSigmoid(self: _Builder, *operands: Any, outputs: int | Sequence[str], alpha: float | None = ..., beta: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def HardSigmoid(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def HardSwish(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """HardSwish(X) → Y.

        Operator sets 14, 22: https://onnx.ai/onnx/operators/onnx__HardSwish.html
        """
    @overload
    def HardSwish(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def HardSwish(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def HardSwish(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Hardmax(self: _Pattern, input_: Any, /, *, axis: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Hardmax(input) → output.

        Operator sets 1, 11, 13: https://onnx.ai/onnx/operators/onnx__Hardmax.html
        - ``axis``: int = -1
        """
    @overload
    def Hardmax(self: _Builder, input_: Any, /, *, axis: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Hardmax(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Hardmax(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Identity(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Identity(input) → output.

        Operator sets 1, 13, 14, 16, 19, 21, 23, 24, 25: https://onnx.ai/onnx/operators/onnx__Identity.html
        """
    @overload
    def Identity(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Identity(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Identity(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def If(self: _Pattern, cond_: Any, /, *, else_branch: Any = ..., then_branch: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """If(cond) → outputs.

        Operator sets 1, 11, 13, 16, 19, 21, 23, 24, 25: https://onnx.ai/onnx/operators/onnx__If.html
        - ``else_branch``: Any, required
        - ``then_branch``: Any, required
        """
    @overload
    def If(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], else_branch: Any = ..., then_branch: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def If(self: _Builder, cond_: Any, /, *, else_branch: Any | None = ..., then_branch: Any | None = ..., name: Any = ...) -> str: ...
    @overload
    def If(self: _Builder, *operands: Any, outputs: int | Sequence[str], else_branch: Any | None = ..., then_branch: Any | None = ..., name: Any = ...) -> Any: ...
    @overload
    def If(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ImageDecoder(self: _Pattern, encoded_stream_: Any, /, *, pixel_format: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ImageDecoder(encoded_stream) → image.

        Operator sets 20: https://onnx.ai/onnx/operators/onnx__ImageDecoder.html
        - ``pixel_format``: str = 'RGB'
        """
    @overload
    def ImageDecoder(self: _Builder, encoded_stream_: Any, /, *, pixel_format: str | None = ..., name: Any = ...) -> str: ...
    @overload
    def ImageDecoder(self: _Builder, *operands: Any, outputs: int | Sequence[str], pixel_format: str | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ImageDecoder(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def InstanceNormalization(self: _Pattern, input_: Any, scale_: Any = ..., B_: Any = ..., /, *, epsilon: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """InstanceNormalization(input, scale, B) → output.

        Operator sets 1, 6, 22: https://onnx.ai/onnx/operators/onnx__InstanceNormalization.html
        - ``epsilon``: float = 9.999999747378752e-06
        """
    @overload
    def InstanceNormalization(self: _Builder, input_: Any, scale_: Any, B_: Any, /, *, epsilon: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def InstanceNormalization(self: _Builder, *operands: Any, outputs: int | Sequence[str], epsilon: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def InstanceNormalization(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def IsInf(self: _Pattern, X_: Any, /, *, detect_negative: Any = ..., detect_positive: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """IsInf(X) → Y.

        Operator sets 10, 20: https://onnx.ai/onnx/operators/onnx__IsInf.html
        - ``detect_negative``: int = 1
        - ``detect_positive``: int = 1
        """
    @overload
    def IsInf(self: _Builder, X_: Any, /, *, detect_negative: int | None = ..., detect_positive: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def IsInf(self: _Builder, *operands: Any, outputs: int | Sequence[str], detect_negative: int | None = ..., detect_positive: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def IsInf(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def IsNaN(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """IsNaN(X) → Y.

        Operator sets 9, 13, 20: https://onnx.ai/onnx/operators/onnx__IsNaN.html
        """
    @overload
    def IsNaN(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def IsNaN(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def IsNaN(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def LRN(self: _Pattern, X_: Any, /, *, alpha: Any = ..., beta: Any = ..., bias: Any = ..., size: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """LRN(X) → Y.

        Operator sets 1, 13: https://onnx.ai/onnx/operators/onnx__LRN.html
        - ``alpha``: float = 9.999999747378752e-05
        - ``beta``: float = 0.75
        - ``bias``: float = 1.0
        - ``size``: int, required
        """
    @overload
    def LRN(self: _Builder, X_: Any, /, *, alpha: float | None = ..., beta: float | None = ..., bias: float | None = ..., size: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def LRN(self: _Builder, *operands: Any, outputs: int | Sequence[str], alpha: float | None = ..., beta: float | None = ..., bias: float | None = ..., size: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def LRN(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def LSTM(self: _Pattern, X_: Any, W_: Any = ..., R_: Any = ..., B_: Any = ..., sequence_lens_: Any = ..., initial_h_: Any = ..., initial_c_: Any = ..., P_: Any = ..., /, *, activation_alpha: Any = ..., activation_beta: Any = ..., activations: Any = ..., clip: Any = ..., direction: Any = ..., hidden_size: Any = ..., input_forget: Any = ..., layout: Any = ..., output_sequence: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """LSTM(X, W, R, B, sequence_lens, initial_h, initial_c, P) → Y, Y_h, Y_c.

        Operator sets 1, 7, 14, 22: https://onnx.ai/onnx/operators/onnx__LSTM.html
        - ``activation_alpha``: Sequence[float]
        - ``activation_beta``: Sequence[float]
        - ``activations``: Sequence[str]
        - ``clip``: float
        - ``direction``: str = 'forward'
        - ``hidden_size``: int
        - ``input_forget``: int = 0
        - ``layout``: int = 0
        - ``output_sequence``: int = 0
        """
    @overload
    def LSTM(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], activation_alpha: Any = ..., activation_beta: Any = ..., activations: Any = ..., clip: Any = ..., direction: Any = ..., hidden_size: Any = ..., input_forget: Any = ..., layout: Any = ..., output_sequence: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def LSTM(self: _Builder, X_: Any, W_: Any, R_: Any, B_: Any = ..., sequence_lens_: Any = ..., initial_h_: Any = ..., initial_c_: Any = ..., P_: Any = ..., /, *, activation_alpha: Sequence[float] | None = ..., activation_beta: Sequence[float] | None = ..., activations: Sequence[str] | None = ..., clip: float | None = ..., direction: str | None = ..., hidden_size: int | None = ..., input_forget: int | None = ..., layout: int | None = ..., output_sequence: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def LSTM(self: _Builder, *operands: Any, outputs: int | Sequence[str], activation_alpha: Sequence[float] | None = ..., activation_beta: Sequence[float] | None = ..., activations: Sequence[str] | None = ..., clip: float | None = ..., direction: str | None = ..., hidden_size: int | None = ..., input_forget: int | None = ..., layout: int | None = ..., output_sequence: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def LSTM(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def LayerNormalization(self: _Pattern, X_: Any, Scale_: Any = ..., B_: Any = ..., /, *, axis: Any = ..., epsilon: Any = ..., stash_type: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """LayerNormalization(X, Scale, B) → Y, Mean, InvStdDev.

        Operator sets 17: https://onnx.ai/onnx/operators/onnx__LayerNormalization.html
        - ``axis``: int = -1
        - ``epsilon``: float = 9.999999747378752e-06
        - ``stash_type``: int = 1
        """
    @overload
    def LayerNormalization(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], axis: Any = ..., epsilon: Any = ..., stash_type: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def LayerNormalization(self: _Builder, X_: Any, Scale_: Any, B_: Any = ..., /, *, axis: int | None = ..., epsilon: float | None = ..., stash_type: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def LayerNormalization(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., epsilon: float | None = ..., stash_type: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def LayerNormalization(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def LeakyRelu(self: _Pattern, X_: Any, /, *, alpha: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """LeakyRelu(X) → Y.

        Operator sets 1, 6, 16: https://onnx.ai/onnx/operators/onnx__LeakyRelu.html
        - ``alpha``: float = 0.009999999776482582
        """
    @overload
    def LeakyRelu(self: _Builder, X_: Any, /, *, alpha: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def LeakyRelu(self: _Builder, *operands: Any, outputs: int | Sequence[str], alpha: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def LeakyRelu(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Less(self: _Pattern, A_: Any, B_: Any = ..., /, *, axis: Any = ..., broadcast: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Less(A, B) → C.

        Operator sets 1, 7, 9, 13: https://onnx.ai/onnx/operators/onnx__Less.html
        - ``axis``: int
        - ``broadcast``: int = 0
        """
    @overload
    def Less(self: _Builder, A_: Any, B_: Any, /, *, axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Less(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Less(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def LessOrEqual(self: _Pattern, A_: Any, B_: Any = ..., /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """LessOrEqual(A, B) → C.

        Operator sets 12, 16: https://onnx.ai/onnx/operators/onnx__LessOrEqual.html
        """
    @overload
    def LessOrEqual(self: _Builder, A_: Any, B_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def LessOrEqual(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def LessOrEqual(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def LinearAttention(self: _Pattern, query_: Any, key_: Any = ..., value_: Any = ..., past_state_: Any = ..., decay_: Any = ..., beta_: Any = ..., /, *, chunk_size: Any = ..., kv_num_heads: Any = ..., q_num_heads: Any = ..., scale: Any = ..., update_rule: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """LinearAttention(query, key, value, past_state, decay, beta) → output, present_state.

        Operator sets 27: https://onnx.ai/onnx/operators/onnx__LinearAttention.html
        - ``chunk_size``: int = 64
        - ``kv_num_heads``: int, required
        - ``q_num_heads``: int, required
        - ``scale``: float = 0.0
        - ``update_rule``: str = 'gated_delta'
        """
    @overload
    def LinearAttention(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], chunk_size: Any = ..., kv_num_heads: Any = ..., q_num_heads: Any = ..., scale: Any = ..., update_rule: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def LinearAttention(self: _Builder, query_: Any, key_: Any, value_: Any, past_state_: Any = ..., decay_: Any = ..., beta_: Any = ..., /, *, chunk_size: int | None = ..., kv_num_heads: int | None = ..., q_num_heads: int | None = ..., scale: float | None = ..., update_rule: str | None = ..., name: Any = ...) -> str: ...
    @overload
    def LinearAttention(self: _Builder, *operands: Any, outputs: int | Sequence[str], chunk_size: int | None = ..., kv_num_heads: int | None = ..., q_num_heads: int | None = ..., scale: float | None = ..., update_rule: str | None = ..., name: Any = ...) -> Any: ...
    @overload
    def LinearAttention(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Log(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Log(input) → output.

        Operator sets 1, 6, 13: https://onnx.ai/onnx/operators/onnx__Log.html
        """
    @overload
    def Log(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Log(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Log(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def LogSoftmax(self: _Pattern, input_: Any, /, *, axis: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """LogSoftmax(input) → output.

        Operator sets 1, 11, 13: https://onnx.ai/onnx/operators/onnx__LogSoftmax.html
        - ``axis``: int = -1
        """
    @overload
    def LogSoftmax(self: _Builder, input_: Any, /, *, axis: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def LogSoftmax(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def LogSoftmax(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Loop(self: _Pattern, *operands: Any, body: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Loop(M, cond, v_initial) → v_final_and_scan_outputs.

        Operator sets 1, 11, 13, 16, 19, 21, 23, 24, 25: https://onnx.ai/onnx/operators/onnx__Loop.html
        - ``body``: Any, required
        """
    @overload
    def Loop(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], body: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def Loop(self: _Builder, *operands: Any, body: Any | None = ..., name: Any = ...) -> str: ...
    @overload
    def Loop(self: _Builder, *operands: Any, outputs: int | Sequence[str], body: Any | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Loop(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def LpNormalization(self: _Pattern, input_: Any, /, *, axis: Any = ..., p: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """LpNormalization(input) → output.

        Operator sets 1, 22: https://onnx.ai/onnx/operators/onnx__LpNormalization.html
        - ``axis``: int = -1
        - ``p``: int = 2
        """
    @overload
    def LpNormalization(self: _Builder, input_: Any, /, *, axis: int | None = ..., p: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def LpNormalization(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., p: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def LpNormalization(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def LpPool(self: _Pattern, X_: Any, /, *, auto_pad: Any = ..., ceil_mode: Any = ..., dilations: Any = ..., kernel_shape: Any = ..., p: Any = ..., pads: Any = ..., strides: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """LpPool(X) → Y.

        Operator sets 1, 2, 11, 18, 22: https://onnx.ai/onnx/operators/onnx__LpPool.html
        - ``auto_pad``: str = 'NOTSET'
        - ``ceil_mode``: int = 0
        - ``dilations``: Sequence[int]
        - ``kernel_shape``: Sequence[int], required
        - ``p``: int = 2
        - ``pads``: Sequence[int]
        - ``strides``: Sequence[int]
        """
    @overload
    def LpPool(self: _Builder, X_: Any, /, *, auto_pad: str | None = ..., ceil_mode: int | None = ..., dilations: Sequence[int] | None = ..., kernel_shape: Sequence[int] | None = ..., p: int | None = ..., pads: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def LpPool(self: _Builder, *operands: Any, outputs: int | Sequence[str], auto_pad: str | None = ..., ceil_mode: int | None = ..., dilations: Sequence[int] | None = ..., kernel_shape: Sequence[int] | None = ..., p: int | None = ..., pads: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def LpPool(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def MatMul(self: _Pattern, A_: Any, B_: Any = ..., /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """MatMul(A, B) → Y.

        Operator sets 1, 9, 13: https://onnx.ai/onnx/operators/onnx__MatMul.html
        """
    @overload
    def MatMul(self: _Builder, A_: Any, B_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def MatMul(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def MatMul(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def MatMulInteger(self: _Pattern, A_: Any, B_: Any = ..., a_zero_point_: Any = ..., b_zero_point_: Any = ..., /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """MatMulInteger(A, B, a_zero_point, b_zero_point) → Y.

        Operator sets 10: https://onnx.ai/onnx/operators/onnx__MatMulInteger.html
        """
    @overload
    def MatMulInteger(self: _Builder, A_: Any, B_: Any, a_zero_point_: Any = ..., b_zero_point_: Any = ..., /, *, name: Any = ...) -> str: ...
    @overload
    def MatMulInteger(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def MatMulInteger(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Max(self: _Pattern, *data_0: Any, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Max(data_0) → max.

        Operator sets 1, 6, 8, 12, 13: https://onnx.ai/onnx/operators/onnx__Max.html
        """
    @overload
    def Max(self: _Pattern, *operands: Any, associative: bool, attributes: Any = ..., any_order: Any = ...) -> Symbol: ...
    @overload
    def Max(self: _Builder, *data_0: Any, name: Any = ...) -> str: ...
    @overload
    def Max(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Max(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def MaxPool(self: _Pattern, X_: Any, /, *, auto_pad: Any = ..., ceil_mode: Any = ..., dilations: Any = ..., kernel_shape: Any = ..., pads: Any = ..., storage_order: Any = ..., strides: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """MaxPool(X) → Y, Indices.

        Operator sets 1, 8, 10, 11, 12, 22: https://onnx.ai/onnx/operators/onnx__MaxPool.html
        - ``auto_pad``: str = 'NOTSET'
        - ``ceil_mode``: int = 0
        - ``dilations``: Sequence[int]
        - ``kernel_shape``: Sequence[int], required
        - ``pads``: Sequence[int]
        - ``storage_order``: int = 0
        - ``strides``: Sequence[int]
        """
    @overload
    def MaxPool(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], auto_pad: Any = ..., ceil_mode: Any = ..., dilations: Any = ..., kernel_shape: Any = ..., pads: Any = ..., storage_order: Any = ..., strides: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def MaxPool(self: _Builder, X_: Any, /, *, auto_pad: str | None = ..., ceil_mode: int | None = ..., dilations: Sequence[int] | None = ..., kernel_shape: Sequence[int] | None = ..., pads: Sequence[int] | None = ..., storage_order: int | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def MaxPool(self: _Builder, *operands: Any, outputs: int | Sequence[str], auto_pad: str | None = ..., ceil_mode: int | None = ..., dilations: Sequence[int] | None = ..., kernel_shape: Sequence[int] | None = ..., pads: Sequence[int] | None = ..., storage_order: int | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def MaxPool(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def MaxRoiPool(self: _Pattern, X_: Any, rois_: Any = ..., /, *, pooled_shape: Any = ..., spatial_scale: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """MaxRoiPool(X, rois) → Y.

        Operator sets 1, 22: https://onnx.ai/onnx/operators/onnx__MaxRoiPool.html
        - ``pooled_shape``: Sequence[int], required
        - ``spatial_scale``: float = 1.0
        """
    @overload
    def MaxRoiPool(self: _Builder, X_: Any, rois_: Any, /, *, pooled_shape: Sequence[int] | None = ..., spatial_scale: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def MaxRoiPool(self: _Builder, *operands: Any, outputs: int | Sequence[str], pooled_shape: Sequence[int] | None = ..., spatial_scale: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def MaxRoiPool(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def MaxUnpool(self: _Pattern, X_: Any, I_: Any = ..., output_shape_: Any = ..., /, *, kernel_shape: Any = ..., pads: Any = ..., strides: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """MaxUnpool(X, I, output_shape) → output.

        Operator sets 9, 11, 22: https://onnx.ai/onnx/operators/onnx__MaxUnpool.html
        - ``kernel_shape``: Sequence[int], required
        - ``pads``: Sequence[int]
        - ``strides``: Sequence[int]
        """
    @overload
    def MaxUnpool(self: _Builder, X_: Any, I_: Any, output_shape_: Any = ..., /, *, kernel_shape: Sequence[int] | None = ..., pads: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def MaxUnpool(self: _Builder, *operands: Any, outputs: int | Sequence[str], kernel_shape: Sequence[int] | None = ..., pads: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def MaxUnpool(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Mean(self: _Pattern, *data_0: Any, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Mean(data_0) → mean.

        Operator sets 1, 6, 8, 13: https://onnx.ai/onnx/operators/onnx__Mean.html
        """
    @overload
    def Mean(self: _Builder, *data_0: Any, name: Any = ...) -> str: ...
    @overload
    def Mean(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Mean(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def MeanVarianceNormalization(self: _Pattern, X_: Any, /, *, axes: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """MeanVarianceNormalization(X) → Y.

        Operator sets 9, 13: https://onnx.ai/onnx/operators/onnx__MeanVarianceNormalization.html
        - ``axes``: Sequence[int] = [0, 2, 3]
        """
    @overload
    def MeanVarianceNormalization(self: _Builder, X_: Any, /, *, axes: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def MeanVarianceNormalization(self: _Builder, *operands: Any, outputs: int | Sequence[str], axes: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def MeanVarianceNormalization(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def MelWeightMatrix(self: _Pattern, num_mel_bins_: Any, dft_length_: Any = ..., sample_rate_: Any = ..., lower_edge_hertz_: Any = ..., upper_edge_hertz_: Any = ..., /, *, output_datatype: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """MelWeightMatrix(num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz) → output.

        Operator sets 17: https://onnx.ai/onnx/operators/onnx__MelWeightMatrix.html
        - ``output_datatype``: int = 1
        """
    @overload
    def MelWeightMatrix(self: _Builder, num_mel_bins_: Any, dft_length_: Any, sample_rate_: Any, lower_edge_hertz_: Any, upper_edge_hertz_: Any, /, *, output_datatype: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def MelWeightMatrix(self: _Builder, *operands: Any, outputs: int | Sequence[str], output_datatype: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def MelWeightMatrix(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Min(self: _Pattern, *data_0: Any, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Min(data_0) → min.

        Operator sets 1, 6, 8, 12, 13: https://onnx.ai/onnx/operators/onnx__Min.html
        """
    @overload
    def Min(self: _Pattern, *operands: Any, associative: bool, attributes: Any = ..., any_order: Any = ...) -> Symbol: ...
    @overload
    def Min(self: _Builder, *data_0: Any, name: Any = ...) -> str: ...
    @overload
    def Min(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Min(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Mish(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Mish(X) → Y.

        Operator sets 18, 22: https://onnx.ai/onnx/operators/onnx__Mish.html
        """
    @overload
    def Mish(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Mish(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Mish(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Mod(self: _Pattern, A_: Any, B_: Any = ..., /, *, fmod: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Mod(A, B) → C.

        Operator sets 10, 13, 28: https://onnx.ai/onnx/operators/onnx__Mod.html
        - ``fmod``: int = 0
        """
    @overload
    def Mod(self: _Builder, A_: Any, B_: Any, /, *, fmod: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Mod(self: _Builder, *operands: Any, outputs: int | Sequence[str], fmod: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Mod(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Mul(self: _Pattern, A_: Any, B_: Any = ..., /, *, axis: Any = ..., broadcast: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Mul(A, B) → C.

        Operator sets 1, 6, 7, 13, 14: https://onnx.ai/onnx/operators/onnx__Mul.html
        - ``axis``: int
        - ``broadcast``: int = 0
        """
    @overload
    def Mul(self: _Pattern, *operands: Any, associative: bool, axis: Any = ..., broadcast: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol: ...
    @overload
    def Mul(self: _Builder, A_: Any, B_: Any, /, *, axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Mul(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Mul(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Multinomial(self: _Pattern, input_: Any, /, *, dtype: Any = ..., sample_size: Any = ..., seed: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Multinomial(input) → output.

        Operator sets 7, 22: https://onnx.ai/onnx/operators/onnx__Multinomial.html
        - ``dtype``: int = 6
        - ``sample_size``: int = 1
        - ``seed``: float
        """
    @overload
    def Multinomial(self: _Builder, input_: Any, /, *, dtype: int | None = ..., sample_size: int | None = ..., seed: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def Multinomial(self: _Builder, *operands: Any, outputs: int | Sequence[str], dtype: int | None = ..., sample_size: int | None = ..., seed: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Multinomial(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Neg(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Neg(X) → Y.

        Operator sets 1, 6, 13: https://onnx.ai/onnx/operators/onnx__Neg.html
        """
    @overload
    def Neg(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Neg(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Neg(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def NegativeLogLikelihoodLoss(self: _Pattern, input_: Any, target_: Any = ..., weight_: Any = ..., /, *, ignore_index: Any = ..., reduction: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """NegativeLogLikelihoodLoss(input, target, weight) → loss.

        Operator sets 12, 13, 22: https://onnx.ai/onnx/operators/onnx__NegativeLogLikelihoodLoss.html
        - ``ignore_index``: int
        - ``reduction``: str = 'mean'
        """
    @overload
    def NegativeLogLikelihoodLoss(self: _Builder, input_: Any, target_: Any, weight_: Any = ..., /, *, ignore_index: int | None = ..., reduction: str | None = ..., name: Any = ...) -> str: ...
    @overload
    def NegativeLogLikelihoodLoss(self: _Builder, *operands: Any, outputs: int | Sequence[str], ignore_index: int | None = ..., reduction: str | None = ..., name: Any = ...) -> Any: ...
    @overload
    def NegativeLogLikelihoodLoss(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def NonMaxSuppression(self: _Pattern, boxes_: Any, scores_: Any = ..., max_output_boxes_per_class_: Any = ..., iou_threshold_: Any = ..., score_threshold_: Any = ..., /, *, center_point_box: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """NonMaxSuppression(boxes, scores, max_output_boxes_per_class, iou_threshold, score_threshold) → selected_indices.

        Operator sets 10, 11: https://onnx.ai/onnx/operators/onnx__NonMaxSuppression.html
        - ``center_point_box``: int = 0
        """
    @overload
    def NonMaxSuppression(self: _Builder, boxes_: Any, scores_: Any, max_output_boxes_per_class_: Any = ..., iou_threshold_: Any = ..., score_threshold_: Any = ..., /, *, center_point_box: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def NonMaxSuppression(self: _Builder, *operands: Any, outputs: int | Sequence[str], center_point_box: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def NonMaxSuppression(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def NonZero(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """NonZero(X) → Y.

        Operator sets 9, 13: https://onnx.ai/onnx/operators/onnx__NonZero.html
        """
    @overload
    def NonZero(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def NonZero(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def NonZero(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Not(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Not(X) → Y.

        Operator sets 1: https://onnx.ai/onnx/operators/onnx__Not.html
        """
    @overload
    def Not(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Not(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Not(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def OneHot(self: _Pattern, indices_: Any, depth_: Any = ..., values_: Any = ..., /, *, axis: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """OneHot(indices, depth, values) → output.

        Operator sets 9, 11, 28: https://onnx.ai/onnx/operators/onnx__OneHot.html
        - ``axis``: int = -1
        """
    @overload
    def OneHot(self: _Builder, indices_: Any, depth_: Any, values_: Any, /, *, axis: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def OneHot(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def OneHot(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Optional(self: _Pattern, input_: Any = ..., /, *, type: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Optional(input) → output.

        Operator sets 15, 28: https://onnx.ai/onnx/operators/onnx__Optional.html
        - ``type``: Any
        """
    @overload
    def Optional(self: _Builder, input_: Any = ..., /, *, type: Any | None = ..., name: Any = ...) -> str: ...
    @overload
    def Optional(self: _Builder, *operands: Any, outputs: int | Sequence[str], type: Any | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Optional(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def OptionalGetElement(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """OptionalGetElement(input) → output.

        Operator sets 15, 18, 28: https://onnx.ai/onnx/operators/onnx__OptionalGetElement.html
        """
    @overload
    def OptionalGetElement(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def OptionalGetElement(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def OptionalGetElement(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def OptionalHasElement(self: _Pattern, input_: Any = ..., /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """OptionalHasElement(input) → output.

        Operator sets 15, 18, 28: https://onnx.ai/onnx/operators/onnx__OptionalHasElement.html
        """
    @overload
    def OptionalHasElement(self: _Builder, input_: Any = ..., /, *, name: Any = ...) -> str: ...
    @overload
    def OptionalHasElement(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def OptionalHasElement(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Or(self: _Pattern, A_: Any, B_: Any = ..., /, *, axis: Any = ..., broadcast: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Or(A, B) → C.

        Operator sets 1, 7: https://onnx.ai/onnx/operators/onnx__Or.html
        - ``axis``: int
        - ``broadcast``: int = 0
        """
    @overload
    def Or(self: _Pattern, *operands: Any, associative: bool, axis: Any = ..., broadcast: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol: ...
    @overload
    def Or(self: _Builder, A_: Any, B_: Any, /, *, axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Or(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Or(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def PRelu(self: _Pattern, X_: Any, slope_: Any = ..., /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """PRelu(X, slope) → Y.

        Operator sets 1, 6, 7, 9, 16: https://onnx.ai/onnx/operators/onnx__PRelu.html
        """
    @overload
    def PRelu(self: _Builder, X_: Any, slope_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def PRelu(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def PRelu(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Pad(self: _Pattern, data_: Any, pads_: Any = ..., constant_value_: Any = ..., axes_: Any = ..., /, *, axes: Any = ..., mode: Any = ..., paddings: Any = ..., pads: Any = ..., value: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Pad(data, pads, constant_value, axes) → output.

        Operator sets 1, 2, 11, 13, 18, 19, 21, 23, 24, 25: https://onnx.ai/onnx/operators/onnx__Pad.html
        - ``axes``: Sequence[int], an operand in newer operator sets
        - ``mode``: str = 'constant'
        - ``paddings``: Sequence[int], required
        - ``pads``: Sequence[int], required
        - ``value``: float = 0.0
        """
    @overload
    def Pad(self: _Builder, data_: Any, pads_: Any = ..., constant_value_: Any = ..., axes_: Any = ..., /, *, axes: Sequence[int] | None = ..., mode: str | None = ..., paddings: Sequence[int] | None = ..., pads: Sequence[int] | None = ..., value: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def Pad(self: _Builder, *operands: Any, outputs: int | Sequence[str], axes: Sequence[int] | None = ..., mode: str | None = ..., paddings: Sequence[int] | None = ..., pads: Sequence[int] | None = ..., value: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Pad(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Pow(self: _Pattern, X_: Any, Y_: Any = ..., /, *, axis: Any = ..., broadcast: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Pow(X, Y) → Z.

        Operator sets 1, 7, 12, 13, 15: https://onnx.ai/onnx/operators/onnx__Pow.html
        - ``axis``: int
        - ``broadcast``: int = 0
        """
    @overload
    def Pow(self: _Builder, X_: Any, Y_: Any, /, *, axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Pow(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Pow(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def QLinearConv(self: _Pattern, x_: Any, x_scale_: Any = ..., x_zero_point_: Any = ..., w_: Any = ..., w_scale_: Any = ..., w_zero_point_: Any = ..., y_scale_: Any = ..., y_zero_point_: Any = ..., B_: Any = ..., /, *, auto_pad: Any = ..., dilations: Any = ..., group: Any = ..., kernel_shape: Any = ..., pads: Any = ..., strides: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """QLinearConv(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B) → y.

        Operator sets 10: https://onnx.ai/onnx/operators/onnx__QLinearConv.html
        - ``auto_pad``: str = 'NOTSET'
        - ``dilations``: Sequence[int]
        - ``group``: int = 1
        - ``kernel_shape``: Sequence[int]
        - ``pads``: Sequence[int]
        - ``strides``: Sequence[int]
        """
    @overload
    def QLinearConv(self: _Builder, x_: Any, x_scale_: Any, x_zero_point_: Any, w_: Any, w_scale_: Any, w_zero_point_: Any, y_scale_: Any, y_zero_point_: Any, B_: Any = ..., /, *, auto_pad: str | None = ..., dilations: Sequence[int] | None = ..., group: int | None = ..., kernel_shape: Sequence[int] | None = ..., pads: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def QLinearConv(self: _Builder, *operands: Any, outputs: int | Sequence[str], auto_pad: str | None = ..., dilations: Sequence[int] | None = ..., group: int | None = ..., kernel_shape: Sequence[int] | None = ..., pads: Sequence[int] | None = ..., strides: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def QLinearConv(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def QLinearMatMul(self: _Pattern, a_: Any, a_scale_: Any = ..., a_zero_point_: Any = ..., b_: Any = ..., b_scale_: Any = ..., b_zero_point_: Any = ..., y_scale_: Any = ..., y_zero_point_: Any = ..., /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """QLinearMatMul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point) → y.

        Operator sets 10, 21: https://onnx.ai/onnx/operators/onnx__QLinearMatMul.html
        """
    @overload
    def QLinearMatMul(self: _Builder, a_: Any, a_scale_: Any, a_zero_point_: Any, b_: Any, b_scale_: Any, b_zero_point_: Any, y_scale_: Any, y_zero_point_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def QLinearMatMul(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def QLinearMatMul(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def QuantizeLinear(self: _Pattern, x_: Any, y_scale_: Any = ..., y_zero_point_: Any = ..., /, *, axis: Any = ..., block_size: Any = ..., output_dtype: Any = ..., precision: Any = ..., saturate: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """QuantizeLinear(x, y_scale, y_zero_point) → y.

        Operator sets 10, 13, 19, 21, 23, 24, 25, 28: https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html
        - ``axis``: int = 1
        - ``block_size``: int = 0
        - ``output_dtype``: int = 0
        - ``precision``: int = 0
        - ``saturate``: int = 1
        """
    @overload
    def QuantizeLinear(self: _Builder, x_: Any, y_scale_: Any, y_zero_point_: Any = ..., /, *, axis: int | None = ..., block_size: int | None = ..., output_dtype: int | None = ..., precision: int | None = ..., saturate: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def QuantizeLinear(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., block_size: int | None = ..., output_dtype: int | None = ..., precision: int | None = ..., saturate: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def QuantizeLinear(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def RMSNormalization(self: _Pattern, X_: Any, scale_: Any = ..., /, *, axis: Any = ..., epsilon: Any = ..., stash_type: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """RMSNormalization(X, scale) → Y.

        Operator sets 23: https://onnx.ai/onnx/operators/onnx__RMSNormalization.html
        - ``axis``: int = -1
        - ``epsilon``: float = 9.999999747378752e-06
        - ``stash_type``: int = 1
        """
    @overload
    def RMSNormalization(self: _Builder, X_: Any, scale_: Any, /, *, axis: int | None = ..., epsilon: float | None = ..., stash_type: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def RMSNormalization(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., epsilon: float | None = ..., stash_type: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def RMSNormalization(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def RNN(self: _Pattern, X_: Any, W_: Any = ..., R_: Any = ..., B_: Any = ..., sequence_lens_: Any = ..., initial_h_: Any = ..., /, *, activation_alpha: Any = ..., activation_beta: Any = ..., activations: Any = ..., clip: Any = ..., direction: Any = ..., hidden_size: Any = ..., layout: Any = ..., output_sequence: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """RNN(X, W, R, B, sequence_lens, initial_h) → Y, Y_h.

        Operator sets 1, 7, 14, 22: https://onnx.ai/onnx/operators/onnx__RNN.html
        - ``activation_alpha``: Sequence[float]
        - ``activation_beta``: Sequence[float]
        - ``activations``: Sequence[str] = [b'Tanh', b'Tanh']
        - ``clip``: float
        - ``direction``: str = 'forward'
        - ``hidden_size``: int
        - ``layout``: int = 0
        - ``output_sequence``: int = 0
        """
    @overload
    def RNN(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], activation_alpha: Any = ..., activation_beta: Any = ..., activations: Any = ..., clip: Any = ..., direction: Any = ..., hidden_size: Any = ..., layout: Any = ..., output_sequence: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def RNN(self: _Builder, X_: Any, W_: Any, R_: Any, B_: Any = ..., sequence_lens_: Any = ..., initial_h_: Any = ..., /, *, activation_alpha: Sequence[float] | None = ..., activation_beta: Sequence[float] | None = ..., activations: Sequence[str] | None = ..., clip: float | None = ..., direction: str | None = ..., hidden_size: int | None = ..., layout: int | None = ..., output_sequence: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def RNN(self: _Builder, *operands: Any, outputs: int | Sequence[str], activation_alpha: Sequence[float] | None = ..., activation_beta: Sequence[float] | None = ..., activations: Sequence[str] | None = ..., clip: float | None = ..., direction: str | None = ..., hidden_size: int | None = ..., layout: int | None = ..., output_sequence: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def RNN(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def RandomNormal(self: _Pattern, *, dtype: Any = ..., mean: Any = ..., scale: Any = ..., seed: Any = ..., shape: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """RandomNormal() → output.

        Operator sets 1, 22: https://onnx.ai/onnx/operators/onnx__RandomNormal.html
        - ``dtype``: int = 1
        - ``mean``: float = 0.0
        - ``scale``: float = 1.0
        - ``seed``: float
        - ``shape``: Sequence[int], required
        """
    @overload
    def RandomNormal(self: _Builder, *, dtype: int | None = ..., mean: float | None = ..., scale: float | None = ..., seed: float | None = ..., shape: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def RandomNormal(self: _Builder, *operands: Any, outputs: int | Sequence[str], dtype: int | None = ..., mean: float | None = ..., scale: float | None = ..., seed: float | None = ..., shape: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def RandomNormal(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def RandomNormalLike(self: _Pattern, input_: Any, /, *, dtype: Any = ..., mean: Any = ..., scale: Any = ..., seed: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """RandomNormalLike(input) → output.

        Operator sets 1, 22: https://onnx.ai/onnx/operators/onnx__RandomNormalLike.html
        - ``dtype``: int
        - ``mean``: float = 0.0
        - ``scale``: float = 1.0
        - ``seed``: float
        """
    @overload
    def RandomNormalLike(self: _Builder, input_: Any, /, *, dtype: int | None = ..., mean: float | None = ..., scale: float | None = ..., seed: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def RandomNormalLike(self: _Builder, *operands: Any, outputs: int | Sequence[str], dtype: int | None = ..., mean: float | None = ..., scale: float | None = ..., seed: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def RandomNormalLike(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def RandomUniform(self: _Pattern, *, dtype: Any = ..., high: Any = ..., low: Any = ..., seed: Any = ..., shape: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """RandomUniform() → output.

        Operator sets 1, 22: https://onnx.ai/onnx/operators/onnx__RandomUniform.html
        - ``dtype``: int = 1
        - ``high``: float = 1.0
        - ``low``: float = 0.0
        - ``seed``: float
        - ``shape``: Sequence[int], required
        """
    @overload
    def RandomUniform(self: _Builder, *, dtype: int | None = ..., high: float | None = ..., low: float | None = ..., seed: float | None = ..., shape: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def RandomUniform(self: _Builder, *operands: Any, outputs: int | Sequence[str], dtype: int | None = ..., high: float | None = ..., low: float | None = ..., seed: float | None = ..., shape: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def RandomUniform(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def RandomUniformLike(self: _Pattern, input_: Any, /, *, dtype: Any = ..., high: Any = ..., low: Any = ..., seed: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """RandomUniformLike(input) → output.

        Operator sets 1, 22: https://onnx.ai/onnx/operators/onnx__RandomUniformLike.html
        - ``dtype``: int
        - ``high``: float = 1.0
        - ``low``: float = 0.0
        - ``seed``: float
        """
    @overload
    def RandomUniformLike(self: _Builder, input_: Any, /, *, dtype: int | None = ..., high: float | None = ..., low: float | None = ..., seed: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def RandomUniformLike(self: _Builder, *operands: Any, outputs: int | Sequence[str], dtype: int | None = ..., high: float | None = ..., low: float | None = ..., seed: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def RandomUniformLike(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Range(self: _Pattern, start_: Any, limit_: Any = ..., delta_: Any = ..., /, *, stash_type: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Range(start, limit, delta) → output.

        Operator sets 11, 27: https://onnx.ai/onnx/operators/onnx__Range.html
        - ``stash_type``: int = 1
        """
    @overload
    def Range(self: _Builder, start_: Any, limit_: Any, delta_: Any, /, *, stash_type: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Range(self: _Builder, *operands: Any, outputs: int | Sequence[str], stash_type: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Range(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Reciprocal(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Reciprocal(X) → Y.

        Operator sets 1, 6, 13: https://onnx.ai/onnx/operators/onnx__Reciprocal.html
        """
    @overload
    def Reciprocal(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Reciprocal(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Reciprocal(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ReduceL1(self: _Pattern, data_: Any, axes_: Any = ..., /, *, axes: Any = ..., keepdims: Any = ..., noop_with_empty_axes: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ReduceL1(data, axes) → reduced.

        Operator sets 1, 11, 13, 18: https://onnx.ai/onnx/operators/onnx__ReduceL1.html
        - ``axes``: Sequence[int]
        - ``keepdims``: int = 1
        - ``noop_with_empty_axes``: int = 0
        """
    @overload
    def ReduceL1(self: _Builder, data_: Any, axes_: Any = ..., /, *, axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def ReduceL1(self: _Builder, *operands: Any, outputs: int | Sequence[str], axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ReduceL1(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ReduceL2(self: _Pattern, data_: Any, axes_: Any = ..., /, *, axes: Any = ..., keepdims: Any = ..., noop_with_empty_axes: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ReduceL2(data, axes) → reduced.

        Operator sets 1, 11, 13, 18: https://onnx.ai/onnx/operators/onnx__ReduceL2.html
        - ``axes``: Sequence[int]
        - ``keepdims``: int = 1
        - ``noop_with_empty_axes``: int = 0
        """
    @overload
    def ReduceL2(self: _Builder, data_: Any, axes_: Any = ..., /, *, axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def ReduceL2(self: _Builder, *operands: Any, outputs: int | Sequence[str], axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ReduceL2(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ReduceLogSum(self: _Pattern, data_: Any, axes_: Any = ..., /, *, axes: Any = ..., keepdims: Any = ..., noop_with_empty_axes: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ReduceLogSum(data, axes) → reduced.

        Operator sets 1, 11, 13, 18, 28: https://onnx.ai/onnx/operators/onnx__ReduceLogSum.html
        - ``axes``: Sequence[int]
        - ``keepdims``: int = 1
        - ``noop_with_empty_axes``: int = 0
        """
    @overload
    def ReduceLogSum(self: _Builder, data_: Any, axes_: Any = ..., /, *, axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def ReduceLogSum(self: _Builder, *operands: Any, outputs: int | Sequence[str], axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ReduceLogSum(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ReduceLogSumExp(self: _Pattern, data_: Any, axes_: Any = ..., /, *, axes: Any = ..., keepdims: Any = ..., noop_with_empty_axes: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ReduceLogSumExp(data, axes) → reduced.

        Operator sets 1, 11, 13, 18, 28: https://onnx.ai/onnx/operators/onnx__ReduceLogSumExp.html
        - ``axes``: Sequence[int]
        - ``keepdims``: int = 1
        - ``noop_with_empty_axes``: int = 0
        """
    @overload
    def ReduceLogSumExp(self: _Builder, data_: Any, axes_: Any = ..., /, *, axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def ReduceLogSumExp(self: _Builder, *operands: Any, outputs: int | Sequence[str], axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ReduceLogSumExp(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ReduceMax(self: _Pattern, data_: Any, axes_: Any = ..., /, *, axes: Any = ..., keepdims: Any = ..., noop_with_empty_axes: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ReduceMax(data, axes) → reduced.

        Operator sets 1, 11, 12, 13, 18, 20: https://onnx.ai/onnx/operators/onnx__ReduceMax.html
        - ``axes``: Sequence[int]
        - ``keepdims``: int = 1
        - ``noop_with_empty_axes``: int = 0
        """
    @overload
    def ReduceMax(self: _Builder, data_: Any, axes_: Any = ..., /, *, axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def ReduceMax(self: _Builder, *operands: Any, outputs: int | Sequence[str], axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ReduceMax(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ReduceMean(self: _Pattern, data_: Any, axes_: Any = ..., /, *, axes: Any = ..., keepdims: Any = ..., noop_with_empty_axes: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ReduceMean(data, axes) → reduced.

        Operator sets 1, 11, 13, 18: https://onnx.ai/onnx/operators/onnx__ReduceMean.html
        - ``axes``: Sequence[int]
        - ``keepdims``: int = 1
        - ``noop_with_empty_axes``: int = 0
        """
    @overload
    def ReduceMean(self: _Builder, data_: Any, axes_: Any = ..., /, *, axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def ReduceMean(self: _Builder, *operands: Any, outputs: int | Sequence[str], axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ReduceMean(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ReduceMin(self: _Pattern, data_: Any, axes_: Any = ..., /, *, axes: Any = ..., keepdims: Any = ..., noop_with_empty_axes: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ReduceMin(data, axes) → reduced.

        Operator sets 1, 11, 12, 13, 18, 20: https://onnx.ai/onnx/operators/onnx__ReduceMin.html
        - ``axes``: Sequence[int]
        - ``keepdims``: int = 1
        - ``noop_with_empty_axes``: int = 0
        """
    @overload
    def ReduceMin(self: _Builder, data_: Any, axes_: Any = ..., /, *, axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def ReduceMin(self: _Builder, *operands: Any, outputs: int | Sequence[str], axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ReduceMin(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ReduceProd(self: _Pattern, data_: Any, axes_: Any = ..., /, *, axes: Any = ..., keepdims: Any = ..., noop_with_empty_axes: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ReduceProd(data, axes) → reduced.

        Operator sets 1, 11, 13, 18: https://onnx.ai/onnx/operators/onnx__ReduceProd.html
        - ``axes``: Sequence[int]
        - ``keepdims``: int = 1
        - ``noop_with_empty_axes``: int = 0
        """
    @overload
    def ReduceProd(self: _Builder, data_: Any, axes_: Any = ..., /, *, axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def ReduceProd(self: _Builder, *operands: Any, outputs: int | Sequence[str], axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ReduceProd(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ReduceSum(self: _Pattern, data_: Any, axes_: Any = ..., /, *, axes: Any = ..., keepdims: Any = ..., noop_with_empty_axes: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ReduceSum(data, axes) → reduced.

        Operator sets 1, 11, 13: https://onnx.ai/onnx/operators/onnx__ReduceSum.html
        - ``axes``: Sequence[int]
        - ``keepdims``: int = 1
        - ``noop_with_empty_axes``: int = 0
        """
    @overload
    def ReduceSum(self: _Builder, data_: Any, axes_: Any = ..., /, *, axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def ReduceSum(self: _Builder, *operands: Any, outputs: int | Sequence[str], axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ReduceSum(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ReduceSumSquare(self: _Pattern, data_: Any, axes_: Any = ..., /, *, axes: Any = ..., keepdims: Any = ..., noop_with_empty_axes: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ReduceSumSquare(data, axes) → reduced.

        Operator sets 1, 11, 13, 18: https://onnx.ai/onnx/operators/onnx__ReduceSumSquare.html
        - ``axes``: Sequence[int]
        - ``keepdims``: int = 1
        - ``noop_with_empty_axes``: int = 0
        """
    @overload
    def ReduceSumSquare(self: _Builder, data_: Any, axes_: Any = ..., /, *, axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def ReduceSumSquare(self: _Builder, *operands: Any, outputs: int | Sequence[str], axes: Sequence[int] | None = ..., keepdims: int | None = ..., noop_with_empty_axes: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ReduceSumSquare(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def RegexFullMatch(self: _Pattern, X_: Any, /, *, pattern: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """RegexFullMatch(X) → Y.

        Operator sets 20: https://onnx.ai/onnx/operators/onnx__RegexFullMatch.html
        - ``pattern``: str
        """
    @overload
    def RegexFullMatch(self: _Builder, X_: Any, /, *, pattern: str | None = ..., name: Any = ...) -> str: ...
    @overload
    def RegexFullMatch(self: _Builder, *operands: Any, outputs: int | Sequence[str], pattern: str | None = ..., name: Any = ...) -> Any: ...
    @overload
    def RegexFullMatch(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Relu(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Relu(X) → Y.

        Operator sets 1, 6, 13, 14: https://onnx.ai/onnx/operators/onnx__Relu.html
        """
    @overload
    def Relu(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Relu(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Relu(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Reshape(self: _Pattern, data_: Any, shape_: Any = ..., /, *, allowzero: Any = ..., shape: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Reshape(data, shape) → reshaped.

        Operator sets 1, 5, 13, 14, 19, 21, 23, 24, 25: https://onnx.ai/onnx/operators/onnx__Reshape.html
        - ``allowzero``: int = 0
        - ``shape``: Sequence[int]
        """
    @overload
    def Reshape(self: _Builder, data_: Any, shape_: Any = ..., /, *, allowzero: int | None = ..., shape: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def Reshape(self: _Builder, *operands: Any, outputs: int | Sequence[str], allowzero: int | None = ..., shape: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Reshape(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Resize(self: _Pattern, X_: Any, roi_: Any = ..., scales_: Any = ..., sizes_: Any = ..., /, *, antialias: Any = ..., axes: Any = ..., coordinate_transformation_mode: Any = ..., cubic_coeff_a: Any = ..., exclude_outside: Any = ..., extrapolation_value: Any = ..., keep_aspect_ratio_policy: Any = ..., mode: Any = ..., nearest_mode: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Resize(X, roi, scales, sizes) → Y.

        Operator sets 10, 11, 13, 18, 19: https://onnx.ai/onnx/operators/onnx__Resize.html
        - ``antialias``: int = 0
        - ``axes``: Sequence[int]
        - ``coordinate_transformation_mode``: str = 'half_pixel'
        - ``cubic_coeff_a``: float = -0.75
        - ``exclude_outside``: int = 0
        - ``extrapolation_value``: float = 0.0
        - ``keep_aspect_ratio_policy``: str = 'stretch'
        - ``mode``: str = 'nearest'
        - ``nearest_mode``: str = 'round_prefer_floor'
        """
    @overload
    def Resize(self: _Builder, X_: Any, roi_: Any = ..., scales_: Any = ..., sizes_: Any = ..., /, *, antialias: int | None = ..., axes: Sequence[int] | None = ..., coordinate_transformation_mode: str | None = ..., cubic_coeff_a: float | None = ..., exclude_outside: int | None = ..., extrapolation_value: float | None = ..., keep_aspect_ratio_policy: str | None = ..., mode: str | None = ..., nearest_mode: str | None = ..., name: Any = ...) -> str: ...
    @overload
    def Resize(self: _Builder, *operands: Any, outputs: int | Sequence[str], antialias: int | None = ..., axes: Sequence[int] | None = ..., coordinate_transformation_mode: str | None = ..., cubic_coeff_a: float | None = ..., exclude_outside: int | None = ..., extrapolation_value: float | None = ..., keep_aspect_ratio_policy: str | None = ..., mode: str | None = ..., nearest_mode: str | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Resize(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ReverseSequence(self: _Pattern, input_: Any, sequence_lens_: Any = ..., /, *, batch_axis: Any = ..., time_axis: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ReverseSequence(input, sequence_lens) → Y.

        Operator sets 10, 28: https://onnx.ai/onnx/operators/onnx__ReverseSequence.html
        - ``batch_axis``: int = 1
        - ``time_axis``: int = 0
        """
    @overload
    def ReverseSequence(self: _Builder, input_: Any, sequence_lens_: Any, /, *, batch_axis: int | None = ..., time_axis: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def ReverseSequence(self: _Builder, *operands: Any, outputs: int | Sequence[str], batch_axis: int | None = ..., time_axis: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ReverseSequence(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def RoiAlign(self: _Pattern, X_: Any, rois_: Any = ..., batch_indices_: Any = ..., /, *, coordinate_transformation_mode: Any = ..., mode: Any = ..., output_height: Any = ..., output_width: Any = ..., sampling_ratio: Any = ..., spatial_scale: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """RoiAlign(X, rois, batch_indices) → Y.

        Operator sets 10, 16, 22: https://onnx.ai/onnx/operators/onnx__RoiAlign.html
        - ``coordinate_transformation_mode``: str = 'half_pixel'
        - ``mode``: str = 'avg'
        - ``output_height``: int = 1
        - ``output_width``: int = 1
        - ``sampling_ratio``: int = 0
        - ``spatial_scale``: float = 1.0
        """
    @overload
    def RoiAlign(self: _Builder, X_: Any, rois_: Any, batch_indices_: Any, /, *, coordinate_transformation_mode: str | None = ..., mode: str | None = ..., output_height: int | None = ..., output_width: int | None = ..., sampling_ratio: int | None = ..., spatial_scale: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def RoiAlign(self: _Builder, *operands: Any, outputs: int | Sequence[str], coordinate_transformation_mode: str | None = ..., mode: str | None = ..., output_height: int | None = ..., output_width: int | None = ..., sampling_ratio: int | None = ..., spatial_scale: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def RoiAlign(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def RotaryEmbedding(self: _Pattern, X_: Any, cos_cache_: Any = ..., sin_cache_: Any = ..., position_ids_: Any = ..., /, *, interleaved: Any = ..., num_heads: Any = ..., rotary_embedding_dim: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """RotaryEmbedding(X, cos_cache, sin_cache, position_ids) → Y.

        Operator sets 23: https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html
        - ``interleaved``: int = 0
        - ``num_heads``: int
        - ``rotary_embedding_dim``: int = 0
        """
    @overload
    def RotaryEmbedding(self: _Builder, X_: Any, cos_cache_: Any, sin_cache_: Any, position_ids_: Any = ..., /, *, interleaved: int | None = ..., num_heads: int | None = ..., rotary_embedding_dim: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def RotaryEmbedding(self: _Builder, *operands: Any, outputs: int | Sequence[str], interleaved: int | None = ..., num_heads: int | None = ..., rotary_embedding_dim: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def RotaryEmbedding(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Round(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Round(X) → Y.

        Operator sets 11, 22: https://onnx.ai/onnx/operators/onnx__Round.html
        """
    @overload
    def Round(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Round(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Round(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def STFT(self: _Pattern, signal_: Any, frame_step_: Any = ..., window_: Any = ..., frame_length_: Any = ..., /, *, onesided: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """STFT(signal, frame_step, window, frame_length) → output.

        Operator sets 17: https://onnx.ai/onnx/operators/onnx__STFT.html
        - ``onesided``: int = 1
        """
    @overload
    def STFT(self: _Builder, signal_: Any, frame_step_: Any, window_: Any = ..., frame_length_: Any = ..., /, *, onesided: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def STFT(self: _Builder, *operands: Any, outputs: int | Sequence[str], onesided: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def STFT(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Scan(self: _Pattern, *initial_state_and_scan_inputs: Any, body: Any = ..., directions: Any = ..., num_scan_inputs: Any = ..., scan_input_axes: Any = ..., scan_input_directions: Any = ..., scan_output_axes: Any = ..., scan_output_directions: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Scan(initial_state_and_scan_inputs) → final_state_and_scan_outputs.

        Operator sets 8, 9, 11, 16, 19, 21, 23, 24, 25: https://onnx.ai/onnx/operators/onnx__Scan.html
        - ``body``: Any, required
        - ``directions``: Sequence[int]
        - ``num_scan_inputs``: int, required
        - ``scan_input_axes``: Sequence[int]
        - ``scan_input_directions``: Sequence[int]
        - ``scan_output_axes``: Sequence[int]
        - ``scan_output_directions``: Sequence[int]
        """
    @overload
    def Scan(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], body: Any = ..., directions: Any = ..., num_scan_inputs: Any = ..., scan_input_axes: Any = ..., scan_input_directions: Any = ..., scan_output_axes: Any = ..., scan_output_directions: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def Scan(self: _Builder, *initial_state_and_scan_inputs: Any, body: Any | None = ..., directions: Sequence[int] | None = ..., num_scan_inputs: int | None = ..., scan_input_axes: Sequence[int] | None = ..., scan_input_directions: Sequence[int] | None = ..., scan_output_axes: Sequence[int] | None = ..., scan_output_directions: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def Scan(self: _Builder, *operands: Any, outputs: int | Sequence[str], body: Any | None = ..., directions: Sequence[int] | None = ..., num_scan_inputs: int | None = ..., scan_input_axes: Sequence[int] | None = ..., scan_input_directions: Sequence[int] | None = ..., scan_output_axes: Sequence[int] | None = ..., scan_output_directions: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Scan(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Scatter(self: _Pattern, data_: Any, indices_: Any = ..., updates_: Any = ..., /, *, axis: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Scatter(data, indices, updates) → output.

        Operator sets 9, 11: https://onnx.ai/onnx/operators/onnx__Scatter.html
        - ``axis``: int = 0
        """
    @overload
    def Scatter(self: _Builder, data_: Any, indices_: Any, updates_: Any, /, *, axis: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Scatter(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Scatter(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ScatterElements(self: _Pattern, data_: Any, indices_: Any = ..., updates_: Any = ..., /, *, axis: Any = ..., reduction: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ScatterElements(data, indices, updates) → output.

        Operator sets 11, 13, 16, 18: https://onnx.ai/onnx/operators/onnx__ScatterElements.html
        - ``axis``: int = 0
        - ``reduction``: str = 'none'
        """
    @overload
    def ScatterElements(self: _Builder, data_: Any, indices_: Any, updates_: Any, /, *, axis: int | None = ..., reduction: str | None = ..., name: Any = ...) -> str: ...
    @overload
    def ScatterElements(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., reduction: str | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ScatterElements(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ScatterND(self: _Pattern, data_: Any, indices_: Any = ..., updates_: Any = ..., /, *, reduction: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ScatterND(data, indices, updates) → output.

        Operator sets 11, 13, 16, 18: https://onnx.ai/onnx/operators/onnx__ScatterND.html
        - ``reduction``: str = 'none'
        """
    @overload
    def ScatterND(self: _Builder, data_: Any, indices_: Any, updates_: Any, /, *, reduction: str | None = ..., name: Any = ...) -> str: ...
    @overload
    def ScatterND(self: _Builder, *operands: Any, outputs: int | Sequence[str], reduction: str | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ScatterND(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Selu(self: _Pattern, X_: Any, /, *, alpha: Any = ..., gamma: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Selu(X) → Y.

        Operator sets 1, 6, 22: https://onnx.ai/onnx/operators/onnx__Selu.html
        - ``alpha``: float = 1.6732631921768188
        - ``gamma``: float = 1.0507010221481323
        """
    @overload
    def Selu(self: _Builder, X_: Any, /, *, alpha: float | None = ..., gamma: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def Selu(self: _Builder, *operands: Any, outputs: int | Sequence[str], alpha: float | None = ..., gamma: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Selu(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def SequenceAt(self: _Pattern, input_sequence_: Any, position_: Any = ..., /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """SequenceAt(input_sequence, position) → tensor.

        Operator sets 11: https://onnx.ai/onnx/operators/onnx__SequenceAt.html
        """
    @overload
    def SequenceAt(self: _Builder, input_sequence_: Any, position_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def SequenceAt(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def SequenceAt(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def SequenceConstruct(self: _Pattern, *inputs: Any, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """SequenceConstruct(inputs) → output_sequence.

        Operator sets 11: https://onnx.ai/onnx/operators/onnx__SequenceConstruct.html
        """
    @overload
    def SequenceConstruct(self: _Builder, *inputs: Any, name: Any = ...) -> str: ...
    @overload
    def SequenceConstruct(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def SequenceConstruct(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def SequenceEmpty(self: _Pattern, *, dtype: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """SequenceEmpty() → output.

        Operator sets 11: https://onnx.ai/onnx/operators/onnx__SequenceEmpty.html
        - ``dtype``: int
        """
    @overload
    def SequenceEmpty(self: _Builder, *, dtype: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def SequenceEmpty(self: _Builder, *operands: Any, outputs: int | Sequence[str], dtype: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def SequenceEmpty(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def SequenceErase(self: _Pattern, input_sequence_: Any, position_: Any = ..., /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """SequenceErase(input_sequence, position) → output_sequence.

        Operator sets 11: https://onnx.ai/onnx/operators/onnx__SequenceErase.html
        """
    @overload
    def SequenceErase(self: _Builder, input_sequence_: Any, position_: Any = ..., /, *, name: Any = ...) -> str: ...
    @overload
    def SequenceErase(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def SequenceErase(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def SequenceInsert(self: _Pattern, input_sequence_: Any, tensor_: Any = ..., position_: Any = ..., /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """SequenceInsert(input_sequence, tensor, position) → output_sequence.

        Operator sets 11: https://onnx.ai/onnx/operators/onnx__SequenceInsert.html
        """
    @overload
    def SequenceInsert(self: _Builder, input_sequence_: Any, tensor_: Any, position_: Any = ..., /, *, name: Any = ...) -> str: ...
    @overload
    def SequenceInsert(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def SequenceInsert(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def SequenceLength(self: _Pattern, input_sequence_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """SequenceLength(input_sequence) → length.

        Operator sets 11: https://onnx.ai/onnx/operators/onnx__SequenceLength.html
        """
    @overload
    def SequenceLength(self: _Builder, input_sequence_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def SequenceLength(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def SequenceLength(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def SequenceMap(self: _Pattern, *operands: Any, body: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """SequenceMap(input_sequence, additional_inputs) → out_sequence.

        Operator sets 17: https://onnx.ai/onnx/operators/onnx__SequenceMap.html
        - ``body``: Any, required
        """
    @overload
    def SequenceMap(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], body: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def SequenceMap(self: _Builder, *operands: Any, body: Any | None = ..., name: Any = ...) -> str: ...
    @overload
    def SequenceMap(self: _Builder, *operands: Any, outputs: int | Sequence[str], body: Any | None = ..., name: Any = ...) -> Any: ...
    @overload
    def SequenceMap(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Shape(self: _Pattern, data_: Any, /, *, end: Any = ..., start: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Shape(data) → shape.

        Operator sets 1, 13, 15, 19, 21, 23, 24, 25: https://onnx.ai/onnx/operators/onnx__Shape.html
        - ``end``: int
        - ``start``: int = 0
        """
    @overload
    def Shape(self: _Builder, data_: Any, /, *, end: int | None = ..., start: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Shape(self: _Builder, *operands: Any, outputs: int | Sequence[str], end: int | None = ..., start: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Shape(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Shrink(self: _Pattern, input_: Any, /, *, bias: Any = ..., lambd: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Shrink(input) → output.

        Operator sets 9: https://onnx.ai/onnx/operators/onnx__Shrink.html
        - ``bias``: float = 0.0
        - ``lambd``: float = 0.5
        """
    @overload
    def Shrink(self: _Builder, input_: Any, /, *, bias: float | None = ..., lambd: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def Shrink(self: _Builder, *operands: Any, outputs: int | Sequence[str], bias: float | None = ..., lambd: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Shrink(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Sigmoid(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Sigmoid(X) → Y.

        Operator sets 1, 6, 13: https://onnx.ai/onnx/operators/onnx__Sigmoid.html
        """
    @overload
    def Sigmoid(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Sigmoid(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Sigmoid(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Sign(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Sign(input) → output.

        Operator sets 9, 13: https://onnx.ai/onnx/operators/onnx__Sign.html
        """
    @overload
    def Sign(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Sign(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Sign(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Sin(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Sin(input) → output.

        Operator sets 7, 22: https://onnx.ai/onnx/operators/onnx__Sin.html
        """
    @overload
    def Sin(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Sin(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Sin(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Sinh(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Sinh(input) → output.

        Operator sets 9, 22: https://onnx.ai/onnx/operators/onnx__Sinh.html
        """
    @overload
    def Sinh(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Sinh(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Sinh(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Size(self: _Pattern, data_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Size(data) → size.

        Operator sets 1, 13, 19, 21, 23, 24, 25: https://onnx.ai/onnx/operators/onnx__Size.html
        """
    @overload
    def Size(self: _Builder, data_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Size(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Size(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Slice(self: _Pattern, data_: Any, starts_: Any = ..., ends_: Any = ..., axes_: Any = ..., steps_: Any = ..., /, *, axes: Any = ..., ends: Any = ..., starts: Any = ..., steps: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Slice(data, starts, ends, axes, steps) → output.

        Operator sets 1, 10, 11, 13: https://onnx.ai/onnx/operators/onnx__Slice.html
        - ``axes``: Sequence[int]
        - ``ends``: Sequence[int], required
        - ``starts``: Sequence[int], required
        - ``steps``: Sequence[int], an operand in newer operator sets
        """
    @overload
    def Slice(self: _Builder, data_: Any, starts_: Any = ..., ends_: Any = ..., axes_: Any = ..., steps_: Any = ..., /, *, axes: Sequence[int] | None = ..., ends: Sequence[int] | None = ..., starts: Sequence[int] | None = ..., steps: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def Slice(self: _Builder, *operands: Any, outputs: int | Sequence[str], axes: Sequence[int] | None = ..., ends: Sequence[int] | None = ..., starts: Sequence[int] | None = ..., steps: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Slice(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Softmax(self: _Pattern, input_: Any, /, *, axis: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Softmax(input) → output.

        Operator sets 1, 11, 13: https://onnx.ai/onnx/operators/onnx__Softmax.html
        - ``axis``: int = -1
        """
    @overload
    def Softmax(self: _Builder, input_: Any, /, *, axis: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Softmax(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Softmax(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def SoftmaxCrossEntropyLoss(self: _Pattern, scores_: Any, labels_: Any = ..., weights_: Any = ..., /, *, ignore_index: Any = ..., reduction: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """SoftmaxCrossEntropyLoss(scores, labels, weights) → output, log_prob.

        Operator sets 12, 13: https://onnx.ai/onnx/operators/onnx__SoftmaxCrossEntropyLoss.html
        - ``ignore_index``: int
        - ``reduction``: str = 'mean'
        """
    @overload
    def SoftmaxCrossEntropyLoss(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], ignore_index: Any = ..., reduction: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def SoftmaxCrossEntropyLoss(self: _Builder, scores_: Any, labels_: Any, weights_: Any = ..., /, *, ignore_index: int | None = ..., reduction: str | None = ..., name: Any = ...) -> str: ...
    @overload
    def SoftmaxCrossEntropyLoss(self: _Builder, *operands: Any, outputs: int | Sequence[str], ignore_index: int | None = ..., reduction: str | None = ..., name: Any = ...) -> Any: ...
    @overload
    def SoftmaxCrossEntropyLoss(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Softplus(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Softplus(X) → Y.

        Operator sets 1, 22: https://onnx.ai/onnx/operators/onnx__Softplus.html
        """
    @overload
    def Softplus(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Softplus(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Softplus(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Softsign(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Softsign(input) → output.

        Operator sets 1, 22: https://onnx.ai/onnx/operators/onnx__Softsign.html
        """
    @overload
    def Softsign(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Softsign(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Softsign(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def SpaceToDepth(self: _Pattern, input_: Any, /, *, blocksize: Any = ..., mode: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """SpaceToDepth(input) → output.

        Operator sets 1, 13, 28: https://onnx.ai/onnx/operators/onnx__SpaceToDepth.html
        - ``blocksize``: int, required
        - ``mode``: str = 'DCR'
        """
    @overload
    def SpaceToDepth(self: _Builder, input_: Any, /, *, blocksize: int | None = ..., mode: str | None = ..., name: Any = ...) -> str: ...
    @overload
    def SpaceToDepth(self: _Builder, *operands: Any, outputs: int | Sequence[str], blocksize: int | None = ..., mode: str | None = ..., name: Any = ...) -> Any: ...
    @overload
    def SpaceToDepth(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Split(self: _Pattern, input_: Any, split_: Any = ..., /, *, axis: Any = ..., num_outputs: Any = ..., split: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Split(input, split) → outputs.

        Operator sets 1, 2, 11, 13, 18: https://onnx.ai/onnx/operators/onnx__Split.html
        - ``axis``: int = 0
        - ``num_outputs``: int
        - ``split``: Sequence[int]
        """
    @overload
    def Split(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], axis: Any = ..., num_outputs: Any = ..., split: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def Split(self: _Builder, input_: Any, split_: Any = ..., /, *, axis: int | None = ..., num_outputs: int | None = ..., split: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def Split(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., num_outputs: int | None = ..., split: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Split(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def SplitToSequence(self: _Pattern, input_: Any, split_: Any = ..., /, *, axis: Any = ..., keepdims: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """SplitToSequence(input, split) → output_sequence.

        Operator sets 11, 24: https://onnx.ai/onnx/operators/onnx__SplitToSequence.html
        - ``axis``: int = 0
        - ``keepdims``: int = 1
        """
    @overload
    def SplitToSequence(self: _Builder, input_: Any, split_: Any = ..., /, *, axis: int | None = ..., keepdims: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def SplitToSequence(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., keepdims: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def SplitToSequence(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Sqrt(self: _Pattern, X_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Sqrt(X) → Y.

        Operator sets 1, 6, 13: https://onnx.ai/onnx/operators/onnx__Sqrt.html
        """
    @overload
    def Sqrt(self: _Builder, X_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Sqrt(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Sqrt(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Squeeze(self: _Pattern, data_: Any, axes_: Any = ..., /, *, axes: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Squeeze(data, axes) → squeezed.

        Operator sets 1, 11, 13, 21, 23, 24, 25: https://onnx.ai/onnx/operators/onnx__Squeeze.html
        - ``axes``: Sequence[int]
        """
    @overload
    def Squeeze(self: _Builder, data_: Any, axes_: Any = ..., /, *, axes: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def Squeeze(self: _Builder, *operands: Any, outputs: int | Sequence[str], axes: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Squeeze(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def StringConcat(self: _Pattern, X_: Any, Y_: Any = ..., /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """StringConcat(X, Y) → Z.

        Operator sets 20: https://onnx.ai/onnx/operators/onnx__StringConcat.html
        """
    @overload
    def StringConcat(self: _Builder, X_: Any, Y_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def StringConcat(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def StringConcat(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def StringNormalizer(self: _Pattern, X_: Any, /, *, case_change_action: Any = ..., is_case_sensitive: Any = ..., locale: Any = ..., stopwords: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """StringNormalizer(X) → Y.

        Operator sets 10: https://onnx.ai/onnx/operators/onnx__StringNormalizer.html
        - ``case_change_action``: str = 'NONE'
        - ``is_case_sensitive``: int = 0
        - ``locale``: str
        - ``stopwords``: Sequence[str]
        """
    @overload
    def StringNormalizer(self: _Builder, X_: Any, /, *, case_change_action: str | None = ..., is_case_sensitive: int | None = ..., locale: str | None = ..., stopwords: Sequence[str] | None = ..., name: Any = ...) -> str: ...
    @overload
    def StringNormalizer(self: _Builder, *operands: Any, outputs: int | Sequence[str], case_change_action: str | None = ..., is_case_sensitive: int | None = ..., locale: str | None = ..., stopwords: Sequence[str] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def StringNormalizer(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def StringSplit(self: _Pattern, X_: Any, /, *, delimiter: Any = ..., maxsplit: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """StringSplit(X) → Y, Z.

        Operator sets 20: https://onnx.ai/onnx/operators/onnx__StringSplit.html
        - ``delimiter``: str
        - ``maxsplit``: int
        """
    @overload
    def StringSplit(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], delimiter: Any = ..., maxsplit: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def StringSplit(self: _Builder, X_: Any, /, *, delimiter: str | None = ..., maxsplit: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def StringSplit(self: _Builder, *operands: Any, outputs: int | Sequence[str], delimiter: str | None = ..., maxsplit: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def StringSplit(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Sub(self: _Pattern, A_: Any, B_: Any = ..., /, *, axis: Any = ..., broadcast: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Sub(A, B) → C.

        Operator sets 1, 6, 7, 13, 14: https://onnx.ai/onnx/operators/onnx__Sub.html
        - ``axis``: int
        - ``broadcast``: int = 0
        """
    @overload
    def Sub(self: _Builder, A_: Any, B_: Any, /, *, axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Sub(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Sub(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Sum(self: _Pattern, *data_0: Any, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Sum(data_0) → sum.

        Operator sets 1, 6, 8, 13: https://onnx.ai/onnx/operators/onnx__Sum.html
        """
    @overload
    def Sum(self: _Pattern, *operands: Any, associative: bool, attributes: Any = ..., any_order: Any = ...) -> Symbol: ...
    @overload
    def Sum(self: _Builder, *data_0: Any, name: Any = ...) -> str: ...
    @overload
    def Sum(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Sum(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def SwiGLU(self: _Pattern, A_: Any, B_: Any = ..., /, *, alpha: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """SwiGLU(A, B) → Y.

        Operator sets 28: https://onnx.ai/onnx/operators/onnx__SwiGLU.html
        - ``alpha``: float = 1.0
        """
    @overload
    def SwiGLU(self: _Builder, A_: Any, B_: Any, /, *, alpha: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def SwiGLU(self: _Builder, *operands: Any, outputs: int | Sequence[str], alpha: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def SwiGLU(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Swish(self: _Pattern, X_: Any, /, *, alpha: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Swish(X) → Y.

        Operator sets 24: https://onnx.ai/onnx/operators/onnx__Swish.html
        - ``alpha``: float = 1.0
        """
    @overload
    def Swish(self: _Builder, X_: Any, /, *, alpha: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def Swish(self: _Builder, *operands: Any, outputs: int | Sequence[str], alpha: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Swish(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Tan(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Tan(input) → output.

        Operator sets 7, 22: https://onnx.ai/onnx/operators/onnx__Tan.html
        """
    @overload
    def Tan(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Tan(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Tan(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Tanh(self: _Pattern, input_: Any, /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Tanh(input) → output.

        Operator sets 1, 6, 13: https://onnx.ai/onnx/operators/onnx__Tanh.html
        """
    @overload
    def Tanh(self: _Builder, input_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Tanh(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Tanh(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def TensorScatter(self: _Pattern, past_cache_: Any, update_: Any = ..., write_indices_: Any = ..., /, *, axis: Any = ..., mode: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """TensorScatter(past_cache, update, write_indices) → present_cache.

        Operator sets 24: https://onnx.ai/onnx/operators/onnx__TensorScatter.html
        - ``axis``: int = -2
        - ``mode``: str = 'linear'
        """
    @overload
    def TensorScatter(self: _Builder, past_cache_: Any, update_: Any, write_indices_: Any = ..., /, *, axis: int | None = ..., mode: str | None = ..., name: Any = ...) -> str: ...
    @overload
    def TensorScatter(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., mode: str | None = ..., name: Any = ...) -> Any: ...
    @overload
    def TensorScatter(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def TfIdfVectorizer(self: _Pattern, X_: Any, /, *, max_gram_length: Any = ..., max_skip_count: Any = ..., min_gram_length: Any = ..., mode: Any = ..., ngram_counts: Any = ..., ngram_indexes: Any = ..., pool_int64s: Any = ..., pool_strings: Any = ..., weights: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """TfIdfVectorizer(X) → Y.

        Operator sets 9: https://onnx.ai/onnx/operators/onnx__TfIdfVectorizer.html
        - ``max_gram_length``: int, required
        - ``max_skip_count``: int, required
        - ``min_gram_length``: int, required
        - ``mode``: str, required
        - ``ngram_counts``: Sequence[int], required
        - ``ngram_indexes``: Sequence[int], required
        - ``pool_int64s``: Sequence[int]
        - ``pool_strings``: Sequence[str]
        - ``weights``: Sequence[float]
        """
    @overload
    def TfIdfVectorizer(self: _Builder, X_: Any, /, *, max_gram_length: int | None = ..., max_skip_count: int | None = ..., min_gram_length: int | None = ..., mode: str | None = ..., ngram_counts: Sequence[int] | None = ..., ngram_indexes: Sequence[int] | None = ..., pool_int64s: Sequence[int] | None = ..., pool_strings: Sequence[str] | None = ..., weights: Sequence[float] | None = ..., name: Any = ...) -> str: ...
    @overload
    def TfIdfVectorizer(self: _Builder, *operands: Any, outputs: int | Sequence[str], max_gram_length: int | None = ..., max_skip_count: int | None = ..., min_gram_length: int | None = ..., mode: str | None = ..., ngram_counts: Sequence[int] | None = ..., ngram_indexes: Sequence[int] | None = ..., pool_int64s: Sequence[int] | None = ..., pool_strings: Sequence[str] | None = ..., weights: Sequence[float] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def TfIdfVectorizer(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def ThresholdedRelu(self: _Pattern, X_: Any, /, *, alpha: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """ThresholdedRelu(X) → Y.

        Operator sets 10, 22: https://onnx.ai/onnx/operators/onnx__ThresholdedRelu.html
        - ``alpha``: float = 1.0
        """
    @overload
    def ThresholdedRelu(self: _Builder, X_: Any, /, *, alpha: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def ThresholdedRelu(self: _Builder, *operands: Any, outputs: int | Sequence[str], alpha: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def ThresholdedRelu(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Tile(self: _Pattern, input_: Any, repeats_: Any = ..., /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Tile(input, repeats) → output.

        Operator sets 1, 6, 13: https://onnx.ai/onnx/operators/onnx__Tile.html
        """
    @overload
    def Tile(self: _Builder, input_: Any, repeats_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Tile(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Tile(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def TopK(self: _Pattern, X_: Any, K_: Any = ..., /, *, axis: Any = ..., k: Any = ..., largest: Any = ..., sorted: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """TopK(X, K) → Values, Indices.

        Operator sets 1, 10, 11, 24: https://onnx.ai/onnx/operators/onnx__TopK.html
        - ``axis``: int = -1
        - ``k``: int, required
        - ``largest``: int = 1
        - ``sorted``: int = 1
        """
    @overload
    def TopK(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], axis: Any = ..., k: Any = ..., largest: Any = ..., sorted: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def TopK(self: _Builder, X_: Any, K_: Any = ..., /, *, axis: int | None = ..., k: int | None = ..., largest: int | None = ..., sorted: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def TopK(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., k: int | None = ..., largest: int | None = ..., sorted: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def TopK(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Transpose(self: _Pattern, data_: Any, /, *, perm: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Transpose(data) → transposed.

        Operator sets 1, 13, 21, 23, 24, 25: https://onnx.ai/onnx/operators/onnx__Transpose.html
        - ``perm``: Sequence[int]
        """
    @overload
    def Transpose(self: _Builder, data_: Any, /, *, perm: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def Transpose(self: _Builder, *operands: Any, outputs: int | Sequence[str], perm: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Transpose(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Trilu(self: _Pattern, input_: Any, k_: Any = ..., /, *, upper: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Trilu(input, k) → output.

        Operator sets 14: https://onnx.ai/onnx/operators/onnx__Trilu.html
        - ``upper``: int = 1
        """
    @overload
    def Trilu(self: _Builder, input_: Any, k_: Any = ..., /, *, upper: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Trilu(self: _Builder, *operands: Any, outputs: int | Sequence[str], upper: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Trilu(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Unique(self: _Pattern, X_: Any, /, *, axis: Any = ..., sorted: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Unique(X) → Y, indices, inverse_indices, counts.

        Operator sets 11, 28: https://onnx.ai/onnx/operators/onnx__Unique.html
        - ``axis``: int
        - ``sorted``: int = 1
        """
    @overload
    def Unique(self: _Pattern, *operands: Any, outputs: int | Symbol | Sequence[Symbol], axis: Any = ..., sorted: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Any: ...
    @overload
    def Unique(self: _Builder, X_: Any, /, *, axis: int | None = ..., sorted: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Unique(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., sorted: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Unique(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Unsqueeze(self: _Pattern, data_: Any, axes_: Any = ..., /, *, axes: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Unsqueeze(data, axes) → expanded.

        Operator sets 1, 11, 13, 21, 23, 24, 25: https://onnx.ai/onnx/operators/onnx__Unsqueeze.html
        - ``axes``: Sequence[int], required
        """
    @overload
    def Unsqueeze(self: _Builder, data_: Any, axes_: Any = ..., /, *, axes: Sequence[int] | None = ..., name: Any = ...) -> str: ...
    @overload
    def Unsqueeze(self: _Builder, *operands: Any, outputs: int | Sequence[str], axes: Sequence[int] | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Unsqueeze(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Upsample(self: _Pattern, X_: Any, scales_: Any = ..., /, *, height_scale: Any = ..., mode: Any = ..., scales: Any = ..., width_scale: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Upsample(X, scales) → Y.

        Operator sets 1, 7, 9, 10: https://onnx.ai/onnx/operators/onnx__Upsample.html
        - ``height_scale``: float, required
        - ``mode``: str = 'nearest'
        - ``scales``: Sequence[float], required
        - ``width_scale``: float, required
        """
    @overload
    def Upsample(self: _Builder, X_: Any, scales_: Any = ..., /, *, height_scale: float | None = ..., mode: str | None = ..., scales: Sequence[float] | None = ..., width_scale: float | None = ..., name: Any = ...) -> str: ...
    @overload
    def Upsample(self: _Builder, *operands: Any, outputs: int | Sequence[str], height_scale: float | None = ..., mode: str | None = ..., scales: Sequence[float] | None = ..., width_scale: float | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Upsample(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Where(self: _Pattern, condition_: Any, X_: Any = ..., Y_: Any = ..., /, *, attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Where(condition, X, Y) → output.

        Operator sets 9, 16: https://onnx.ai/onnx/operators/onnx__Where.html
        """
    @overload
    def Where(self: _Builder, condition_: Any, X_: Any, Y_: Any, /, *, name: Any = ...) -> str: ...
    @overload
    def Where(self: _Builder, *operands: Any, outputs: int | Sequence[str], name: Any = ...) -> Any: ...
    @overload
    def Where(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
    @overload
    def Xor(self: _Pattern, A_: Any, B_: Any = ..., /, *, axis: Any = ..., broadcast: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol:
        """Xor(A, B) → C.

        Operator sets 1, 7: https://onnx.ai/onnx/operators/onnx__Xor.html
        - ``axis``: int
        - ``broadcast``: int = 0
        """
    @overload
    def Xor(self: _Pattern, *operands: Any, associative: bool, axis: Any = ..., broadcast: Any = ..., attributes: Any = ..., any_order: Any = ...) -> Symbol: ...
    @overload
    def Xor(self: _Builder, A_: Any, B_: Any, /, *, axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> str: ...
    @overload
    def Xor(self: _Builder, *operands: Any, outputs: int | Sequence[str], axis: int | None = ..., broadcast: int | None = ..., name: Any = ...) -> Any: ...
    @overload
    def Xor(self, *operands: Any, domain: str, outputs: int | Result | Sequence[Result] = ..., **attributes: Any) -> Any: ...
