// test_constraint: grammars from patterns, JSON schemas and GBNF, what they let through, and masks over a vocabulary.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "text/constraint.h"
#include "text/gbnf.h"
#include "text/json_schema.h"
#include "text/pattern.h"
#include "text/schema_disjoint.h"
#include "unit/made_vocabulary.h"

#undef fail // cmocka has its own
#include <cmocka.h>

enum { TEXTS = 12 };
typedef struct Row {
    const char *source;
    const char *good[TEXTS], *bad[TEXTS];
} Row;

// ---- patterns

static const Row patterns[] = {
    {"^abc$", {"abc"}, {"", "ab", "abcd", "abx"}},
    {"^a*$", {"", "a", "aaaa"}, {"b", "aab"}},
    {"^(a|bc)+?d?$", {"a", "bc", "abcad", "bcbc"}, {"", "d", "b"}},
    {"^[0-9]{2,3}$", {"12", "123"}, {"1", "1234", "x2"}},
    {"^\\d\\w\\s$", {"1a ", "9_\t"}, {"a1 ", "1-  "}},
    {"^[^a-c\\]]$", {"d", "é", "😸", "["}, {"a", "]", ""}},
    {"^é{2}$", {"éé"}, {"é", "ée"}},
    {"b", {"b", "abc", "bb", "日b本"}, {"", "a"}},
    {"^a|b$", {"a", "axx", "xxb", "b"}, {"xa", "bx"}},
    {"^\\u00e9\\x41\\.$", {"éA."}, {"éAx"}},
    {"^(?:a{2}){3}(?<name>b)$", {"aaaaaab"}, {"aaaaab"}},
    {"^(a?){5}$", {"", "aaaaa"}, {"aaaaaa"}},
    {"^((a*)*)*$", {"", "aaa"}, {"b"}},
    {"^.$", {"x", "é"}, {"\n", "xx"}},
};

static const char *const bad_patterns[] = {
    "^hello there indeed\\!$", "(", ")", "[a", "a{2", "a{3,2}", "*", "a**", "(?=a)", "(?<!a)b", "\\b", "\\1", "\\p{L}", "[b-a]", "a^b", "\\",
    "[^\\s\\S]", "\\ud800", "(a*){2000}"};

static GrammarNode pattern_of(Grammar *g, const char *pattern, bool in_json) {
    GrammarNode node = -1;
    Error err = {0};
    if (!pattern_parse(g, text_of(pattern), in_json, &node, &err)) fail_msg("%s: %s", pattern, err.text);
    return node;
}

static void texts_check(const Grammar *g, GrammarNode root, const Row *row) {
    for (int i = 0; i < TEXTS && row->good[i]; i++)
        if (!constraint_accepts(g, root, text_of(row->good[i]))) fail_msg("%s must fit %s", row->good[i], row->source);
    for (int i = 0; i < TEXTS && row->bad[i]; i++)
        if (constraint_accepts(g, root, text_of(row->bad[i]))) fail_msg("%s must not fit %s", row->bad[i], row->source);
}

static void patterns_fit(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        Arena *arena = arena_create();
        Grammar *g = grammar_create(arena);
        texts_check(g, pattern_of(g, patterns[i].source, false), &patterns[i]);
        arena_destroy(arena);
    }
    for (size_t i = 0; i < sizeof bad_patterns / sizeof *bad_patterns; i++) {
        Arena *arena = arena_create();
        GrammarNode node;
        Error err = {0};
        if (pattern_parse(grammar_create(arena), text_of(bad_patterns[i]), false, &node, &err)) fail_msg("%s must be refused", bad_patterns[i]);
        assert_int_equal(err.code, LATHE_BAD_REQUEST);
        arena_destroy(arena);
    }
}

// ---- schemas

static const Row schemas[] = {
    {"{}", {"1", "\"x\"", "null", "[1, {\"a\": []}]", "{}"}, {"", "x", "[1,]", "{\"a\"}"}},
    {"{\"type\":\"object\",\"properties\":{}}", {"{}", "{ }"}, {"{\"a\":1}", "[]"}},
    {"{\"type\":\"object\"}", {"{}", "{\"a\": 1, \"b\": [2]}", "{\n  \"a\": 1\n}"}, {"[]", "{\"a\": 1,}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"},\"c\":{\"type\":\"boolean\"}},\"required\":[\"b\"]}",
     {"{\"a\":1,\"b\":\"x\",\"c\":true}", "{\"b\":\"x\"}", "{\"a\": -3, \"b\": \"\"}", "{\"b\":\"x\", \"c\":false}"},
     {"{}", "{\"a\":1}", "{\"b\":\"x\",\"a\":1}", "{\"b\":1}", "{\"b\":\"x\",}", "{,\"b\":\"x\"}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{}},\"required\":[\"a\",\"z\"]}", {"{\"a\":1,\"z\":[]}"}, {"{\"a\":1}"}},
    {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"},\"maxProperties\":2}", {"{}", "{\"x\":1}", "{\"x\":1,\"y\":2}"},
     {"{\"x\":\"1\"}", "{\"x\":1,\"y\":2,\"z\":3}"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"minItems\":1,\"maxItems\":3}", {"[null]", "[null, null,null]"}, {"[]", "[null,null,null,null]", "[1]"}},
    {"{\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"items\":false}", {"[1,\"a\"]"}, {"[1]", "[1,\"a\",2]", "[\"a\",1]"}},
    {"{\"type\":\"array\",\"maxItems\":0}", {"[]"}, {"[1]"}},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", {"\"ab\"", "\"é😸x\"", "\"\\n\\u00e9\""}, {"\"a\"", "\"abcd\"", "\"a\nb\"", "\"\\ud800x\""}},
    {"{\"pattern\":\"^a\\\"+\\\\\\\\$\"}", {"\"a\\\"\\\\\"", "\"a\\\"\\\"\\\\\""}, {"\"a\"", "\"a\"\\\\\""}},
    {"{\"type\":\"string\",\"format\":\"date\"}", {"\"2026-11-28\""}, {"\"2026-13-01\"", "\"x\""}},
    {"{\"type\":\"string\",\"format\":\"uuid\"}", {"\"123e4567-e89b-12d3-a456-426614174000\""}, {"\"123\""}},
    {"{\"enum\":[\"a\",1,null,\"é\\\"\"]}", {"\"a\"", "1", "null", "\"é\\\"\""}, {"\"b\"", "2"}},
    {"{\"enum\":[\"a\",1],\"type\":\"string\"}", {"\"a\""}, {"1"}},
    {"{\"const\":{\"a\":[1,2]}}", {"{\"a\":[1,2]}"}, {"{\"a\":[1]}"}},
    {"{\"type\":[\"integer\",\"null\"]}", {"5", "null", "-12", "0"}, {"5.5", "\"5\"", "05", "-"}},
    {"{\"type\":\"integer\",\"minimum\":7,\"maximum\":1203}", {"7", "9", "10", "99", "100", "999", "1000", "1199", "1203"}, {"6", "0", "1204", "2000", "-7", "07"}},
    {"{\"type\":\"integer\",\"minimum\":-12,\"exclusiveMaximum\":3}", {"-12", "-1", "0", "2", "-10"}, {"-13", "3", "-20", "10", "-0"}},
    {"{\"type\":\"integer\",\"minimum\":95}", {"95", "100", "123456"}, {"94", "9", "10"}},
    {"{\"type\":\"integer\",\"maximum\":-5}", {"-5", "-6", "-10", "-100"}, {"-4", "5", "0"}},
    {"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}", {"0", "0.25", "1", "0.999"}, {"1.5", "-0.1", "2", "1.01"}},
    {"{\"type\":\"number\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":2}", {"0.5", "1", "1.99", "0.01"}, {"0", "2", "0.0", "-1"}},
    {"{\"type\":\"number\",\"minimum\":-2.5}", {"-2", "-1.75", "0", "17.25", "1e5"}, {"-3", "-2.6"}},
    {"{\"type\":\"number\"}", {"-1.5e-9", "12", "0.1", "1E+5"}, {"1.", ".5", "01", "+1"}},
    {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}]}", {"1", "[]", "[1,[2,[]]]"}, {"\"x\"", "[\"x\"]"}},
    {"{\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/node\"},{\"type\":\"null\"}]}},"
     "\"required\":[\"v\",\"next\"]}},\"$ref\":\"#/$defs/node\"}", {"{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":null}}"}, {"{\"v\":1}"}},
    {"{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]},{\"properties\":{\"b\":{\"type\":\"null\"}},\"required\":[\"b\"]}],\"type\":\"object\"}",
     {"{\"a\":1,\"b\":null}"}, {"{\"a\":1}", "{\"b\":null}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"integer\"}},\"anyOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}",
     {"{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"b\":2}"}, {"{}"}},
    {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}", {"1", "\"x\""}, {"1.5", "null"}},
    {"{\"$defs\":{\"cat\":{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"cat\",\"type\":\"string\"},\"n\":{\"type\":\"integer\"}},\"required\":[\"k\",\"n\"]},"
     "\"dog\":{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"dog\"},\"s\":{\"type\":\"string\"}},\"required\":[\"k\"]}},"
     "\"oneOf\":[{\"$ref\":\"#/$defs/cat\"},{\"$ref\":\"#/$defs/dog\"}],\"discriminator\":{\"propertyName\":\"k\"}}",
     {"{\"k\":\"cat\",\"n\":1}", "{\"k\":\"dog\"}", "{\"k\":\"dog\",\"s\":\"\"}"}, {"{\"k\":\"cat\"}", "{\"k\":\"cow\"}", "{\"k\":\"dog\",\"n\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"k\":{\"type\":\"integer\"}},\"required\":[\"k\"],\"oneOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},"
     "{\"properties\":{\"a\":{\"const\":2}},\"required\":[\"a\"]}]}", {"{\"k\":5,\"a\":1}", "{\"k\":5,\"a\":2}"}, {"{\"k\":5}", "{\"k\":5,\"a\":3}"}},
};

typedef struct Refused { const char *schema, *path; } Refused;
static const Refused refused_schemas[] = {
    {"{\"type\":\"string\",\"pattern\":\"^hello there indeed\\\\!$\"}", "s.pattern"},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"not\":{\"type\":\"null\"}}}}}", "s.properties.a.items.not"},
    {"{\"type\":\"text\"}", "s.type"},
    {"{\"type\":[]}", "s.type"},
    {"{\"minLength\":3,\"maxLength\":2}", "s.maxLength"},
    {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "s"},
    {"{\"type\":\"integer\",\"multipleOf\":5}", "s.multipleOf"},
    {"{\"type\":\"array\",\"uniqueItems\":true}", "s.uniqueItems"},
    {"{\"type\":\"object\",\"patternProperties\":{\"^x\":{}}}", "s.patternProperties"},
    {"{\"$ref\":\"http://elsewhere\"}", "s.$ref"},
    {"{\"$ref\":\"#/$defs/none\"}", "s.$ref"},
    {"{\"$ref\":\"#\"}", "s.$ref"},
    {"{\"enum\":[]}", "s.enum"},
    {"{\"anyOf\":[]}", "s.anyOf"},
    {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"x\"}]}", "s.anyOf[1].type"},
    {"{\"properties\":{\"a\":false},\"required\":[\"a\"]}", "s.properties.a"},
    {"{\"required\":[\"a\"],\"additionalProperties\":false}", "s.required"},
    {"{\"minProperties\":2,\"properties\":{\"a\":{}}}", "s.minProperties"},
    {"{\"pattern\":\"a\",\"maxLength\":4}", "s.pattern"},
    {"{\"type\":\"integer\",\"minimum\":1e300}", "s"},
    {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "s.oneOf[1]"},
    {"{\"properties\":{\"a\":{\"oneOf\":[{\"type\":\"null\"},{\"type\":\"string\",\"minLength\":1},{\"type\":\"string\"}]}}}", "s.properties.a.oneOf[2]"},
    {"{\"type\":\"object\",\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}", "s.oneOf[1]"},
    {"false", "s"},
    {"[1]", "s"},
};

static void schemas_fit(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        Arena *arena = arena_create();
        Grammar *g = grammar_create(arena);
        GrammarNode root;
        const char *path;
        Error err = {0};
        json_t *schema = json_loads(schemas[i].source, 0, NULL);
        assert_non_null(schema);
        if (!json_schema_parse(g, schema, "s", &root, &path, &err)) fail_msg("%s: %s", schemas[i].source, err.text);
        texts_check(g, root, &schemas[i]);
        json_decref(schema);
        arena_destroy(arena);
    }
}

static void schemas_are_refused_by_path(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refused_schemas / sizeof *refused_schemas; i++) {
        Arena *arena = arena_create();
        GrammarNode root;
        const char *path;
        Error err = {0};
        json_t *schema = json_loads(refused_schemas[i].schema, JSON_DECODE_ANY, NULL);
        assert_non_null(schema);
        if (json_schema_parse(grammar_create(arena), schema, "s", &root, &path, &err)) fail_msg("%s must be refused", refused_schemas[i].schema);
        assert_string_equal(path, refused_schemas[i].path);
        assert_non_null(strstr(err.text, path));
        json_decref(schema);
        arena_destroy(arena);
    }
}

static void deep_schemas_are_refused(void **state) {
    (void)state;
    for (int depth = SCHEMA_DEPTH_MAX - 2; depth <= SCHEMA_DEPTH_MAX + 2; depth += 4) {
        Arena *arena = arena_create();
        TextBuilder b = builder(arena);
        GrammarNode root;
        const char *path;
        Error err = {0};
        for (int i = 0; i < depth; i++) builder_cstring(&b, "{\"type\":\"array\",\"items\":");
        builder_cstring(&b, "{\"type\":\"null\"}");
        for (int i = 0; i < depth; i++) builder_char(&b, '}');
        json_t *schema = json_loads(builder_cstr(&b), 0, NULL);
        assert_int_equal(json_schema_parse(grammar_create(arena), schema, "s", &root, &path, &err), depth < SCHEMA_DEPTH_MAX);
        if (depth > SCHEMA_DEPTH_MAX) assert_non_null(strstr(path, ".items.items"));
        json_decref(schema);
        arena_destroy(arena);
    }
}

typedef struct Pair { const char *a, *b; bool are_disjoint; } Pair;
static const Pair pairs[] = {
    {"{\"type\":\"string\"}", "{\"type\":\"null\"}", true}, {"{\"type\":\"integer\"}", "{\"type\":\"number\"}", false},
    {"{\"type\":[\"string\",\"null\"]}", "{\"type\":[\"null\",\"object\"]}", false}, {"{\"type\":\"string\",\"nullable\":true}", "{\"type\":\"null\"}", false},
    {"true", "{\"type\":\"null\"}", false}, {"{}", "{\"type\":\"null\"}", false}, {"false", "{}", true},
    {"{\"const\":1}", "{\"const\":2}", true}, {"{\"const\":1}", "{\"const\":1.0}", false}, {"{\"const\":\"a\"}", "{\"enum\":[\"b\",\"c\"]}", true},
    {"{\"enum\":[\"a\",\"b\"]}", "{\"enum\":[\"b\"]}", false}, {"{\"const\":[1]}", "{\"const\":[1.0]}", false}, {"{\"const\":[1]}", "{\"const\":1}", true},
    {"{\"const\":5}", "{\"type\":\"integer\",\"maximum\":4}", true}, {"{\"const\":5}", "{\"type\":\"integer\",\"maximum\":5}", false},
    {"{\"const\":5.5}", "{\"type\":\"integer\"}", true}, {"{\"const\":\"a\"}", "{\"type\":\"string\"}", false},
    {"{\"const\":{\"k\":1}}", "{\"required\":[\"z\"]}", true}, {"{\"const\":{\"k\":1}}", "{\"properties\":{\"k\":{\"type\":\"string\"}}}", true},
    {"{\"const\":{\"k\":1}}", "{\"additionalProperties\":false}", true}, {"{\"const\":{\"k\":1}}", "{\"required\":[\"k\"]}", false},
    {"{\"type\":\"number\",\"maximum\":1}", "{\"type\":\"number\",\"minimum\":1}", false}, {"{\"type\":\"number\",\"maximum\":1}", "{\"type\":\"number\",\"exclusiveMinimum\":1}", true},
    {"{\"type\":\"number\",\"maximum\":1,\"exclusiveMaximum\":true}", "{\"type\":\"number\",\"minimum\":1}", true},
    {"{\"type\":\"string\",\"maxLength\":2}", "{\"type\":\"string\",\"minLength\":3}", true}, {"{\"type\":\"array\",\"maxItems\":2}", "{\"type\":\"array\",\"minItems\":2}", false},
    {"{\"type\":\"string\",\"pattern\":\"^a$\"}", "{\"type\":\"string\",\"pattern\":\"^b$\"}", false},        // not looked at
    // A property that only one needs tells them apart where the other says what it would be.
    {"{\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]}", "{\"properties\":{\"k\":{\"const\":2}}}", true},
    {"{\"properties\":{\"k\":{\"const\":1}}}", "{\"properties\":{\"k\":{\"const\":2}}}", false},
    {"{\"required\":[\"a\"]}", "{\"properties\":{\"b\":{}},\"additionalProperties\":false}", true}, {"{\"required\":[\"a\"]}", "{\"properties\":{\"a\":false}}", true},
    {"{\"required\":[\"a\"]}", "{\"properties\":{\"a\":{}},\"additionalProperties\":false}", false},
    // Without a type, what is written is an object; but any other value fits as well.
    {"{\"required\":[\"a\"]}", "{\"minLength\":1}", false}, {"{\"required\":[\"a\"]}", "{\"type\":\"string\"}", false},    // "x" fits both
    {"{\"allOf\":[{\"type\":\"string\"},{\"minLength\":1}]}", "{\"type\":\"null\"}", true}, {"{\"anyOf\":[{\"type\":\"string\"},{\"const\":1}]}", "{\"type\":\"null\"}", true},
    {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", "{\"type\":\"null\"}", false}, {"{\"$ref\":\"#/x\"}", "{\"type\":\"null\"}", true},
    {"{\"$ref\":\"#/x\"}", "{\"$ref\":\"#/x\"}", false}, {"{\"$ref\":\"#/loop\"}", "{\"type\":\"null\"}", false}, {"{\"$ref\":\"#/nowhere\"}", "{\"type\":\"null\"}", false},
    {"{\"$ref\":\"#/deep\"}", "{\"$ref\":\"#/deep\"}", false},
};

static void disjoint_is_said_only_where_it_is_certain(void **state) {
    (void)state;
    json_t *root = json_loads("{\"x\":{\"type\":\"integer\"},\"loop\":{\"$ref\":\"#/loop\"},\"deep\":{\"properties\":{\"d\":{\"$ref\":\"#/deep\"}},\"required\":[\"d\"]}}", 0, NULL);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        json_t *a = json_loads(pairs[i].a, JSON_DECODE_ANY, NULL), *b = json_loads(pairs[i].b, JSON_DECODE_ANY, NULL);
        int steps = 20000;         // of the last rows there are 2^24
        bool one = schemas_are_disjoint(root, a, b, &steps), other = schemas_are_disjoint(root, b, a, &steps);
        if (one != pairs[i].are_disjoint || other != one) fail_msg("%s and %s: %d, %d", pairs[i].a, pairs[i].b, one, other);
        json_decref(a);
        json_decref(b);
    }
    json_decref(root);
}

// Counts are numbers, not copies.
static void large_counts_stay_small(void **state) {
    (void)state;
    enum { N = 100000 };
    Arena *arena = arena_create();
    Grammar *g = grammar_create(arena);
    GrammarNode root;
    const char *path;
    Error err = {0};
    json_t *schema = json_loads("{\"type\":\"string\",\"minLength\":100000,\"maxLength\":100001}", 0, NULL);
    assert_true(json_schema_parse(g, schema, "s", &root, &path, &err));
    assert_in_range(g->len, 1, 200);
    char *text = malloc(N + 8);
    for (int n = N - 1; n <= N + 2; n++) {
        text[0] = '"';
        memset(text + 1, 'x', (size_t)n);
        text[n + 1] = '"';
        assert_int_equal(constraint_accepts(g, root, (Text){text, (size_t)n + 2}), n == N || n == N + 1);
    }
    free(text);
    json_decref(schema);
    arena_destroy(arena);
}

// ---- grammars in text

static const Row grammars[] = {
    {"root ::= \"abc\"", {"abc"}, {"", "ab", "abcd"}},
    {"root ::= \"a\" | \"b\" \"c\"* |", {"", "a", "b", "bccc"}, {"ab", "c", "bca"}},
    {"# first\nroot   ::=  item (\",\" item)* # behind\r\n\n item ::= [0-9]+ | \"x\"\n# last", {"1", "22,x,3", "x"}, {"", ",", "1,", "y"}},
    {"root ::= \"\\x41\\u00e9\\U0001F638\\n\\t\\r\\\\\\\"\\[\\]\"", {"Aé😸\n\t\r\\\"[]"}, {"Aé😸"}},
    {"root ::= [a-cX\\]\\x2d]{2}", {"ab", "X]", "-c"}, {"a", "abc", "dd"}},
    {"root ::= [^a-c\\n]", {"d", "é", "😸", "]"}, {"a", "\n", "", "dd"}},
    {"root ::= [a-] [-a] [é-ü]", {"--é", "aaü", "-aë"}, {"b-é", "--e"}},
    {"root ::= . \"x\"", {"ax", "éx", "\nx", "😸x"}, {"x", "aax"}},
    {"root ::= \"a\"? \"b\"+ \"c\"{2} \"d\"{1,} \"e\" { 0 , 2 }", {"abccd", "bbccdde", "abccdee"}, {"accd", "abcd", "abcc", "abccdeee"}},
    {"root ::= (\"a\" | (\n \"b\"\n | \"c\" # here\n) )* \"!\"", {"!", "abcab!"}, {"", "ab"}},
    {"root ::= a-1 | A_2\na-1 ::= A_2 \"x\"\nA_2 ::= \"y\"", {"y", "yx"}, {"x"}},
    {"root ::=\n  \"(\" root \")\" |\n  \"\"", {"", "()", "((()))"}, {"(", "())"}},
    {"root ::= many{3}\nmany ::= \"a\"*", {"", "aaaaaaa"}, {"b"}},
    {"root ::= \"a\"{0} \"b\"{0,0} \"c\"", {"c"}, {"ac", "bc"}},
    {"root ::= value\nvalue ::= (object | string) ws\nobject ::= \"{\" ws ( string \":\" ws value (\",\" ws string \":\" ws value)* )? \"}\" ws\n"
     "string ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4}))* \"\\\"\" ws\nws ::= | \" \" | \"\\n\" [ \\t]{0,20}",
     {"{}", "{\"a\": {\"b\":\"\\u00e9\"},\n  \"c\": \"d\" }", "\"x\""}, {"{", "{\"a\"}", "{\"a\":1}", "\"\\x\""}},
};

typedef struct Place { const char *source, *place, *why; } Place;
static const Place bad_grammars[] = {
    {"", "line 1, column 1:", "no rule called root"},
    {"a ::= \"x\"\n", "line 2, column 1:", "no rule called root"},
    {"root ::= \"x\"\n\n  é", "line 3, column 3:", "name of a rule is expected"},
    {"root ::= \"é\" other", "line 1, column 14:", "\"other\" is not defined"},
    {"root ::= \"x\"\nroot ::= \"y\"", "line 2, column 1:", "defined twice"},
    {"root := \"x\"", "line 1, column 7:", "::= is expected"},
    {"root ::= \"x\" )", "line 1, column 14:", "nothing that a rule is made of"},
    {"root ::= <think>", "line 1, column 10:", "nothing that a rule is made of"},
    {"root ::= \"x\"\n\"y\"", "line 2, column 1:", "name of a rule is expected"},
    {"root ::= \"x\" | (\"y\"\n", "line 1, column 16:", "group without its )"},
    {"root ::= \"x\n\"", "line 1, column 10:", "without its closing"},
    {"root ::= [a-z", "line 1, column 10:", "without its ]"},
    {"root ::= [z-a]", "line 1, column 11:", "ends before it begins"},
    {"root ::= []", "line 1, column 10:", "no character is in"},
    {"root ::= [^\\x00-\\U0010FFFF]", "line 1, column 10:", "no character is in"},
    {"root ::= \"a\\q\"", "line 1, column 13:", "unknown escape"},
    {"root ::= \"a\\", "line 1, column 13:", "unknown escape"},
    {"root ::= \"\\x4\"", "line 1, column 14:", "too few digits"},
    {"root ::= \"\\ud800\"", "line 1, column 17:", "no character"},
    {"root ::= \"\\U00110000\"", "line 1, column 21:", "no character"},
    {"root ::= \"\xff\"", "line 1, column 11:", "no character"},
    {"root ::= * \"a\"", "line 1, column 10:", "nothing that a rule is made of"},
    {"root ::= \"a\"{", "line 1, column 14:", "count is expected"},
    {"root ::= \"a\"{2", "line 1, column 15:", "} is expected"},
    {"root ::= \"a\"{3,2}", "line 1, column 13:", "at least more than at most"},
    {"root ::= \"a\"{99999999999}", "line 1, column 14:", "too large"},
    {"root ::= (\"a\"*){5000}", "line 1, column 16:", "repeated at most 1000 times"},
    {"root ::= root \"a\" | \"b\"", "line 1, column 10:", "\"root\" begins with itself"},
    {"root ::= a\na ::= \" \"* b \"x\"\nb ::= a | \"c\"", "line 3, column 7:", "\"a\" begins with itself"},
    {"root ::= \"x\"\nlost ::= (lost | \"y\")? \"z\"", "line 2, column 11:", "\"lost\" begins with itself"},
    {"root ::= \"a\" root", "line 1, column 1:", "\"root\" never ends"},
    {"root ::= \"a\" | b\nb ::= \"x\" c\nc ::= \"y\" b{2}", "line 2, column 1:", "\"b\" never ends"},
};

static bool gbnf_of(Grammar *g, Text source, GrammarNode *root, Error *err) {
    *err = (Error){0};
    return gbnf_parse(g, source, root, err);
}

static void grammars_in_text_fit(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof grammars / sizeof *grammars; i++) {
        Arena *arena = arena_create();
        Grammar *g = grammar_create(arena);
        GrammarNode root;
        Error err;
        if (!gbnf_of(g, text_of(grammars[i].source), &root, &err)) fail_msg("%s: %s", grammars[i].source, err.text);
        texts_check(g, root, &grammars[i]);
        arena_destroy(arena);
    }
}

static void grammars_in_text_are_refused_by_place(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad_grammars / sizeof *bad_grammars; i++) {
        const Place *p = &bad_grammars[i];
        Arena *arena = arena_create();
        GrammarNode root;
        Error err;
        if (gbnf_of(grammar_create(arena), text_of(p->source), &root, &err)) fail_msg("%s must be refused", p->source);
        assert_int_equal(err.code, LATHE_BAD_REQUEST);
        bool ok = strncmp(err.text, p->place, strlen(p->place)) == 0 && strstr(err.text, p->why);
        if (!ok) fail_msg("%s: %s", p->source, err.text);
        arena_destroy(arena);
    }
}

// n times `open`, the middle, n times `close`.
static const char *nested(Arena *arena, const char *open, const char *middle, const char *close, int n) {
    TextBuilder b = builder(arena);
    for (int i = 0; i < n; i++) builder_cstring(&b, open);
    builder_cstring(&b, middle);
    for (int i = 0; i < n; i++) builder_cstring(&b, close);
    return builder_cstr(&b);
}

static void grammars_in_text_have_limits(void **state) {
    (void)state;
    Arena *arena = arena_create();
    GrammarNode root;
    Error err;
    for (int n = GBNF_GROUPS_MAX; n <= GBNF_GROUPS_MAX + 1; n++)
        assert_int_equal(gbnf_of(grammar_create(arena), text_of(arena_printf(arena, "root ::= %s", nested(arena, "(", "\"a\"", ")", n))), &root, &err),
                         n == GBNF_GROUPS_MAX);
    assert_non_null(strstr(err.text, "line 1, column 110: groups nested too deep"));
    static const int chains[] = {300, GBNF_STEPS_MAX};
    for (size_t k = 0; k < 2; k++) {
        TextBuilder b = builder(arena);
        for (int i = 0; i < chains[k]; i++) builder_printf(&b, "r%d ::= r%d\n", i, i + 1);
        builder_printf(&b, "r%d ::= \"end\"\nroot ::= r0", chains[k]);
        Grammar *g = grammar_create(arena);
        assert_int_equal(gbnf_of(g, builder_view(&b), &root, &err), k == 0);
        if (k == 0) assert_true(constraint_accepts(g, root, text_of("end")));
        else assert_non_null(strstr(err.text, "too deep"));
    }
    TextBuilder b = builder(arena);
    builder_cstring(&b, "root ::= \"x\"\n");
    for (int i = 0; i <= GBNF_RULES_MAX; i++) builder_printf(&b, "r%d ::= \"y\"\n", i);
    assert_false(gbnf_of(grammar_create(arena), builder_view(&b), &root, &err));
    assert_non_null(strstr(err.text, "too many rules"));
    assert_false(gbnf_of(grammar_create(arena), text_of(arena_printf(arena, "root ::= %s", nested(arena, "[^a]", "", "", 100000))), &root, &err));
    assert_non_null(strstr(err.text, "too large"));
    Grammar *g = grammar_create(arena);
    assert_true(gbnf_of(g, text_of("root ::= pair{99999,100000}\npair ::= \"a\" | \"b\""), &root, &err));
    assert_in_range(g->len, 1, 20);      // counts are numbers, not copies
    const char *text = nested(arena, "ab", "", "", 50000);
    for (size_t n = 99998; n <= 100000; n++) assert_int_equal(constraint_accepts(g, root, (Text){text, n}), n >= 99999);
    arena_destroy(arena);
}

// ---- masks

// A token taken at once leads where its bytes lead one after the other.
static void token_take(Constraint *c, const Tokenizer *tokenizer, int32_t id, bool in_bytes) {
    Text piece = tokenizer_decode_piece(tokenizer, id);
    if (!in_bytes) constraint_take(c, id);
    for (size_t k = 0; k < piece.len && in_bytes; k++) constraint_take(c, (uint8_t)piece.at[k]);
}

static const Token tokens[] = {{"ab", 1, 0}, {"12", 1, 0}, {"1\"", 1, 0}, {"\"a", 1, 0}, {"é", 1, 0}, {"<|end|>", 3, 0}};

// What was kept comes back or was forgotten; it is never another's. Nodes hold each token once.
static void masks_are_kept(const TokenOrder *order) {
    enum { KEYS = 20000 };
    uint8_t bits[64], bytes[512];
    int is, n_known = 0;
    assert_int_equal(order->mask_bytes, 33);
    assert_int_equal(order->vocabulary, 262);
    assert_null(token_order_recall(order, (MaskKey){1, 2}, &is));
    for (uint64_t i = 0; i < KEYS; i++) {
        memset(bits, (int)(i % 251), sizeof bits);
        token_order_keep(order, (MaskKey){i * 3, i}, bits, (int)i);
        const uint8_t *kept = token_order_recall(order, (MaskKey){i * 3, i}, &is);
        assert_non_null(kept);
        assert_int_equal(is, i);
        assert_null(token_order_recall(order, (MaskKey){i * 3, i + 1}, &is));
    }
    for (uint64_t i = 0; i < KEYS; i++) {
        const uint8_t *kept = token_order_recall(order, (MaskKey){i * 3, i}, &is);
        if (!kept) continue;
        n_known++;
        assert_int_equal(is, i);
        assert_int_equal(kept[32], i % 251);
    }
    assert_in_range(n_known, 1000, 2048);
    memset(bytes, 7, sizeof bytes);
    memset(bits, 0, sizeof bits);
    bits[0] = 0x81, bits[32] = 0x20;
    token_order_spread(order, bits, bytes);
    for (int i = 0; i < 512; i++) assert_int_equal(bytes[i], i >= 262 ? 7 : i == 0 || i == 7 || i == 261);
    size_t n_tokens = 0;
    for (size_t i = 0; i < order->n; i++) {
        const TokenNode *node = &order->nodes[i];
        assert_in_range(node->end, i + 1, order->n);
        if (i + 1 < order->n && node->end > i + 1) assert_int_equal(node[1].depth, node->depth + 1);
        for (uint32_t t = node->first; t < node[1].first; t++, n_tokens++) {
            Text piece = tokenizer_decode_piece(order->tokenizer, order->ids[t]);
            assert_int_equal(piece.len, node->depth);
            assert_int_equal((uint8_t)piece.at[piece.len - 1], node->byte);
        }
    }
    assert_int_equal(n_tokens, 261);               // all but the end
}

static void masks_allow_what_goes_on(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Bytes f = bpe_file(tokens, 6, NULL, 0, "gpt-2");
    put_key_u32(&f, "tokenizer.ggml.eos_token_id", 261);
    f.b.at[16]++;      // one key more than bpe_file counted
    Gguf gguf = {0};
    Tokenizer *tokenizer = NULL;
    Error err = {0};
    uint8_t *copy = calloc(1, f.b.len + 4096);
    size_t nbytes = f.b.len;
    memcpy(copy, f.b.at, nbytes);
    arena_destroy(f.arena);
    if (!gguf_open_memory(&gguf, "made", copy, nbytes, &err) || !tokenizer_create(&tokenizer, &gguf, &err)) fail_msg("%s", err.text);
    TokenOrder *order = token_order_create(tokenizer, NULL, 0);
    static const char *const sources[] = {"^\"a[0-9]+\"$", "^(é|ab1|12)*$", "^[^a]{2}$", "^a$"};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        Grammar *g = grammar_create(arena);
        GrammarNode root = pattern_of(g, sources[i], false);
        Constraint *c = constraint_create(g, root, order);
        TextBuilder said = builder(arena);
        uint32_t random = 7 + (uint32_t)i;
        for (int step = 0; step < 30; step++) {
            const uint8_t *mask;
            int32_t chosen = -1;
            ConstraintState is = constraint_mask(c, &mask);
            bool accepts = constraint_accepts(g, root, builder_view(&said));
            if (is != CONSTRAINT_OPEN) {
                assert_int_equal(is, CONSTRAINT_DONE);
                assert_true(accepts);
                break;
            }
            assert_int_equal(mask[261], accepts);
            for (int32_t id = 0; id < 261; id++) {
                // A token is allowed exactly if some state is left behind its bytes: taking it tells.
                Constraint *other = constraint_create(g, root, order);
                TextBuilder longer = builder(arena);
                const uint8_t *ignored;
                builder_text(&longer, builder_view(&said));
                for (size_t k = 0; k < said.len; k++) constraint_take(other, (uint8_t)said.at[k]);
                Text piece = tokenizer_decode_piece(tokenizer, id);
                for (size_t k = 0; k < piece.len; k++) constraint_take(other, (uint8_t)piece.at[k]);
                bool lives = constraint_mask(other, &ignored) != CONSTRAINT_STUCK;
                assert_int_equal(mask[id], lives);
                constraint_destroy(other);
                random = random * 1664525u + 1013904223u;
                if (mask[id] && (chosen < 0 || random >> 30 == 0)) chosen = id;
            }
            if (chosen < 0) break;
            builder_text(&said, tokenizer_decode_piece(tokenizer, chosen));
            constraint_take(c, chosen);
        }
        constraint_destroy(c);
    }
    // Counts near their bounds and far from them: masks that states share are those that each would get of its own.
    static const char *const counted[] = {"^[a1]{12,17}$", "^a{9}b*$", "^(a[0-9]{3}){6,8}$", "^\"(a|1|é){5,}\"$", "^(a?1){8}$", "^(a*){5}b{7}$",
                                          "^(ab|a12?|ab1|12ab|é1?){4,30}$", "^((ab?1?){3}|(a|b|1){9,})*12$", "^(ba|b1a|2a1|21|a1?){6,20}$"};
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        Grammar *g = grammar_create(arena);
        GrammarNode root = pattern_of(g, counted[i], false);
        for (unsigned turn = 1; turn < 12; turn++) {
            unsigned random = turn;
            Constraint *c = constraint_create(g, root, order);
            int32_t taken[40];
            for (int step = 0; step < 40; step++) {
                const uint8_t *mask, *own;
                TokenOrder *empty = token_order_create(tokenizer, NULL, 0);      // knows no mask yet
                Constraint *fresh = constraint_create(g, root, empty);
                for (int k = 0; k < step; k++) token_take(fresh, tokenizer, taken[k], turn % 2);
                ConstraintState is = constraint_mask(c, &mask);
                assert_int_equal(constraint_mask(fresh, &own), is);
                if (is == CONSTRAINT_OPEN) assert_memory_equal(mask, own, 262);
                int32_t n_open = 0, chosen = -1;
                for (int32_t id = 0; id < 261 && is == CONSTRAINT_OPEN; id++)
                    if (mask[id] && rand_r(&random) % ++n_open == 0) chosen = id;
                constraint_destroy(fresh);
                token_order_destroy(empty);
                if (chosen < 0) break;
                constraint_take(c, taken[step] = chosen);
            }
            constraint_destroy(c);
        }
    }
    masks_are_kept(order);
    token_order_destroy(order);
    tokenizer_destroy(tokenizer);
    gguf_close(&gguf);
    free(copy);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_fit),
        cmocka_unit_test(schemas_fit),
        cmocka_unit_test(schemas_are_refused_by_path),
        cmocka_unit_test(deep_schemas_are_refused),
        cmocka_unit_test(disjoint_is_said_only_where_it_is_certain),
        cmocka_unit_test(large_counts_stay_small),
        cmocka_unit_test(grammars_in_text_fit),
        cmocka_unit_test(grammars_in_text_are_refused_by_place),
        cmocka_unit_test(grammars_in_text_have_limits),
        cmocka_unit_test(masks_allow_what_goes_on),
    };
    return cmocka_run_group_tests_name("constraint", tests, NULL, NULL);
}
