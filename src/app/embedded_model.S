// embedded_model: the bytes of the model file that the binary carries, in a read-only section.
// In: EMBEDDED_MODEL, the path given by the Makefile. Out: embedded_model_begin and embedded_model_end.
// Invariant: aligned to 64 bytes, and 4,096 readable zero bytes lie behind the end, as gguf_open_memory asks.
    .section .rodata
    .balign 64
    .global embedded_model_begin
    .global embedded_model_end
embedded_model_begin:
    .incbin EMBEDDED_MODEL
embedded_model_end:
    .zero 4096
    .section .note.GNU-stack,"",%progbits
