// tokenize: the ids and pieces of a text. No BOS is added; names of special tokens are text unless --special is given.
// In: TEXT, or - for standard input. Out: a table of id and piece, the ids on one line (--ids), or JSON.
// Invariant: pieces put together are the text (SentencePiece: with its leading space).
// Example: lathe tokenize --ids "Once upon a time" → 507 1088 259 655
#include <ctype.h>
#include <stdio.h>

#include "app/json_output.h"
#include "app/loaded.h"
#include "app/terminal.h"
#include "base/os.h"
#include "text/tokenizer.h"

// Quotes show where a piece begins and ends; bytes that are no text are shown as \xHH.
static void piece_print(Text piece) {
    putchar('"');
    for (size_t i = 0, used; i < piece.len; i += used) {
        int32_t code = utf8_decode(piece.at + i, piece.len - i, &used);
        unsigned char byte = (unsigned char)piece.at[i];
        if (code == '\n') fputs("\\n", stdout);
        else if (code == '"' || code == '\\') printf("\\%c", (char)code);
        else if (code < 0 || code < 32 || code == 127) {
            used = 1;
            printf("\\x%02x", byte);
        } else fwrite(piece.at + i, 1, used, stdout);
    }
    puts("\"");
}

static void ids_print_json(const Tokenizer *t, const TokenIds *ids, bool ids_only) {
    json_t *list = json_array();
    for (size_t i = 0; i < ids->len; i++) {
        json_t *id = json_integer(ids->at[i]);
        json_array_append_new(list, ids_only ? id : json_pack("{s:o, s:o}", "id", id, "piece",
                                                              json_words(tokenizer_decode_piece(t, ids->at[i]))));
    }
    json_print(list, 9);
}

static void ids_print(const Tokenizer *t, const TokenIds *ids, bool ids_only) {
    for (size_t i = 0; i < ids->len; i++) {
        printf(ids_only ? (i ? " %d" : "%d") : "%7d  ", ids->at[i]);
        if (!ids_only) piece_print(tokenizer_decode_piece(t, ids->at[i]));
    }
    if (ids_only) putchar('\n');
}

bool command_tokenize(const Options *o, Error *err) {
    const char *model = o->n_words == 2 ? o->words[0] : NULL, *word = o->words[o->n_words - 1], *path;
    Text text = text_of(word);
    Gguf gguf = {0};
    Tokenizer *tokenizer = NULL;
    TokenIds ids = {0};
    if (text_is(text, "-")) TRY(file_or_input_read(o->arena, word, &text, err));
    TRY(loaded_open_file(&gguf, o, model, &path, err));
    bool ok = tokenizer_create(&tokenizer, &gguf, err) &&
              tokenizer_encode(tokenizer, o->arena, text, option_given(o, OPTION_special), &ids, err);
    if (ok && option_given(o, OPTION_json)) ids_print_json(tokenizer, &ids, option_given(o, OPTION_ids));
    else if (ok) ids_print(tokenizer, &ids, option_given(o, OPTION_ids));
    tokenizer_destroy(tokenizer);
    gguf_close(&gguf);
    return ok;
}
