"""Control flow, recurrence and sequences: If, Loop, LSTM, SequenceAt, ..."""
