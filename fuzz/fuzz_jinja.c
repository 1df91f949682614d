// fuzz_jinja: any bytes as a chat template, rendered over a small conversation.
// In: the bytes. Out: nothing; a crash, a leak, a hang or undefined behaviour is the finding.
// Invariant: parsing and rendering end within their limits, and a refusal has a message.
#include <string.h>

#include "text/jinja.h"

static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", \"content\": [{\"type\": "
    "\"text\", \"text\": \"a <b> \\u00e4\"}]}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\": "
    "{\"name\": \"f\", \"arguments\": \"{\\\"x\\\": [1, 2.5, null]}\"}}]}], \"xs\": [3, 1, 2], \"d\": {\"b\": 1, \"a\": "
    "{\"c\": \"z\"}}, \"s\": \" Hello, World \", \"n\": 7}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes) {
    Arena *arena = arena_create();
    Text source = {(const char *)data, nbytes};
    JinjaTemplate *template;
    JinjaOutput output;
    Error err = {0};
    json_t *variables = json_loads(conversation, 0, NULL), *value;
    const char *name;
    bool is_good = jinja_parse(&template, arena, source, &err);
    if (is_good) {
        JinjaContext *context = jinja_context(arena);
        jinja_set_limits(context, (JinjaLimits){20000, 1 << 20, 300});
        json_object_foreach(variables, name, value)
            jinja_set_json(context, name, value, JINJA_DATA);
        is_good = jinja_render(template, context, &output, &err);
    }
    if (!is_good) CHECK(err.text[0] != 0);
    json_decref(variables);
    arena_destroy(arena);
    return 0;
}
