// chat_page: the bytes of the page that `lathe serve` shows at /, in a read-only section.
// In: chat.html. Out: chat_page_begin and chat_page_end. Invariant: the page is one file that asks no other host.
    .section .rodata
    .global chat_page_begin
    .global chat_page_end
chat_page_begin:
    .incbin "src/app/chat.html"
chat_page_end:
    .byte 0
    .section .note.GNU-stack,"",%progbits
