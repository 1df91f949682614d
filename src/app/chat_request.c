// chat_request: see chat_request.h. Messages and tools → the template's prompt → ids → jobs, whose answers are cut into parts
// as the model writes them.
// Example: tool_choice "none": the template sees no tools, and nothing in the answer is taken for a call
#include "app/chat_request.h"

#include "text/json_values.h"

// ---- tools

static bool tool_check(Exchange *x, const Wire *wire, const json_t *tool, size_t i) {
    const json_t *function = json_object_get(tool, "function"), *parameters = json_object_get(function, "parameters");
    const char *place = arena_printf(x->arena, "tools[%zu]", i);
    if (!json_is_word(json_object_get(tool, "type"), "function"))
        return refuse(x, 400, "invalid_value", place, "%s: the only known type of tools is \"function\"", place);
    if (!json_is_string(json_object_get(function, "name")) || json_string_length(json_object_get(function, "name")) == 0)
        return refuse(x, 400, "invalid_type", arena_printf(x->arena, "%s.%s", place, wire->tool_name),
                      "%s.%s must be a string that is not empty", place, wire->tool_name);
    if (parameters && !json_is_null(parameters) && !json_is_object(parameters))
        return refuse(x, 400, "invalid_type", arena_printf(x->arena, "%s.%s", place, wire->tool_schema),
                      "%s.%s must be a JSON schema, an object", place, wire->tool_schema);
    return true;
}

static const json_t *tool_find(const json_t *tools, const char *name) {
    size_t i;
    json_t *tool;
    json_array_foreach(tools, i, tool)
        if (json_is_word(json_object_get(json_object_get(tool, "function"), "name"), name)) return tool;
    return NULL;
}

static bool choice_check(Exchange *x, const json_t *choice, const json_t *tools) {
    const json_t *name = json_object_get(json_object_get(choice, "function"), "name");
    if (!choice || json_is_word(choice, "none") || json_is_word(choice, "auto")) return true;
    if (!json_is_word(choice, "required") && !json_is_string(name))
        return refuse(x, 400, "invalid_value", "tool_choice",
                      "tool_choice must be \"none\", \"auto\", \"required\", or {\"type\": \"function\", \"function\": {\"name\"}}");
    if (json_array_size(tools) == 0) return refuse(x, 400, "invalid_value", "tool_choice", "tool_choice asks for a call, and there are no tools");
    if (json_is_string(name) && !tool_find(tools, json_string_value(name)))
        return refuse(x, 400, "invalid_value", "tool_choice", "tool_choice: no tool is called \"%.64s\"", json_string_value(name));
    return true;
}

static bool tools_check(Exchange *x, const ChatRequest *r) {
    const Server *server = server_of(x);
    size_t i;
    json_t *tool;
    json_array_foreach(r->tools, i, tool)
        if (!tool_check(x, r->wire, tool, i)) return false;
    if (!choice_check(x, r->tool_choice, r->tools)) return false;
    if (json_array_size(r->tools) == 0 || json_is_word(r->tool_choice, "none")) return true;
    return chat_template_knows_tools(chat_form_template(server->form)) ||
           refuse(x, 400, "unsupported_parameter", "tools",
                  "the chat template of this model has no form for tools; another one can be given with lathe serve --template-file");
}

// ---- the prompt

int64_t thinking_budget_of(const Fields *f, int64_t otherwise) {
    return field_int(f, FIELD_thinking_budget, field_int(f, FIELD_reasoning_budget, otherwise));
}

// Where nothing may be thought, the template is told so, unless the request told it something.
static const json_t *kwargs_of(Fields *fields, const ChatRequest *r) {
    if (r->thinking_budget != 0 || json_object_get(r->kwargs, "enable_thinking")) return r->kwargs;
    json_t *more = r->kwargs ? json_deep_copy(r->kwargs) : json_object();
    json_object_set_new(more, "enable_thinking", json_false());
    json_object_set_new(fields->body, " kwargs", more);      // lives and dies with the body
    return more;
}

static bool prompt_make(Exchange *x, const ChatRequest *r, const json_t *tools, const json_t *kwargs, TokenIds *ids, Text *prompt) {
    const Server *server = server_of(x);
    Error err = {0};
    if (!chat_form_encode(server->form, server->tokenizer, x->arena, r->messages, tools, kwargs, ids, prompt, &err))
        return refuse(x, err.code == LATHE_BAD_REQUEST ? 400 : 500, "template_error", "messages", "%s", err.text);
    bos_add(server->tokenizer, x->arena, ids);
    return true;
}

void chat_request_answer(Exchange *x, Fields *fields, const ChatRequest *r) {
    const Server *server = server_of(x);
    const json_t *tools = json_is_word(r->tool_choice, "none") || json_array_size(r->tools) == 0 ? NULL : r->tools;
    Generation *g;
    TokenIds ids = {0};
    Text prompt = {"", 0};
    GenerationSetup setup = {.wire = r->wire, .prompts = &ids, .n_prompts = 1, .format = &server->format, .tools = tools,
                             .thinking_budget = r->thinking_budget, .wire_state = r->wire_state};
    if (!tools_check(x, r) || !prompt_make(x, r, tools, kwargs_of(fields, r), &ids, &prompt)) {
        fields_free(fields);
        return;
    }
    setup.thinks_first = reply_format_is_open(&server->format, prompt);
    AnswerForm form = {.response_format = r->response_format, .format_name = r->format_name, .json_schema = fields->at[FIELD_json_schema],
                       .regex = fields->at[FIELD_regex], .gbnf = fields->at[FIELD_grammar], .tools = tools, .tool_choice = r->tool_choice,
                       .tool_schema = r->wire->tool_schema, .is_single = r->is_single_call || json_is_false(fields->at[FIELD_parallel_calls]),
                       .thinks_first = setup.thinks_first, .may_think = true};
    if (!answer_grammar_make(x, &form, &setup.grammar)) {
        fields_free(fields);
        return;
    }
    if (generation_begin(&g, x, fields, &setup)) generation_reply(g);
}
