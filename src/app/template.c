// template: the prompt that a conversation becomes, for people who debug formats and for tests.
// In: --messages FILE.json, a model or --template-file. Out: the prompt, byte for byte, nothing else.
// Invariant: opens the file's header only; no weights, no device. A template's refusal is the command's error.
// Example: lathe template m.gguf --messages chat.json --kwargs '{"enable_thinking": false}'
#include <stdio.h>

#include "app/chat_form.h"
#include "app/loaded.h"
#include "base/os.h"

typedef struct TemplateInput { json_t *messages, *tools, *kwargs; } TemplateInput;

static bool array_read(Arena *arena, const char *path, const char *what, json_t **out, Error *err) {
    TRY(json_file_read(arena, path, out, err));
    return json_is_array(*out) || fail(err, LATHE_BAD_FILE, "%s: this must be a JSON array of %s", path, what);
}

static bool input_read(const Options *o, TemplateInput *c, Error *err) {
    const char *tools = option_text(o, OPTION_tools);
    return array_read(o->arena, option_text(o, OPTION_messages), "messages", &c->messages, err) &&
           (!tools || array_read(o->arena, tools, "tools", &c->tools, err)) && chat_kwargs_read(o, &c->kwargs, err);
}

static bool prompt_print(const Options *o, const Gguf *gguf, const TemplateInput *c, Error *err) {
    ChatForm *form = NULL;
    ChatSegments prompt;
    TRY(chat_form_open(&form, gguf, option_text(o, OPTION_template_file), err));
    bool ok = chat_template_render(chat_form_template(form), o->arena, c->messages, c->tools,
                                   !option_given(o, OPTION_no_generation_prompt), c->kwargs, &prompt, err);
    if (ok) fwrite(prompt.text.at, 1, prompt.text.len, stdout);
    if (ok && is_terminal(1)) putchar('\n');
    chat_form_close(form);
    return ok;
}

bool command_template(const Options *o, Error *err) {
    const char *path;
    Gguf gguf = {0};
    TemplateInput input = {0};
    if (!option_given(o, OPTION_messages))
        return fail(err, LATHE_BAD_REQUEST, "--messages is missing; for example: lathe template --messages chat.json");
    TRY(loaded_open_file(&gguf, o, o->n_words ? o->words[0] : NULL, &path, err));
    bool ok = input_read(o, &input, err) && prompt_print(o, &gguf, &input, err);
    json_decref(input.messages);
    json_decref(input.tools);
    json_decref(input.kwargs);
    gguf_close(&gguf);
    return ok;
}
