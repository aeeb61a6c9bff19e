"""BatchNormalization, LayerNormalization and RMSNormalization."""
