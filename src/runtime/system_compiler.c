// system_compiler: command lines from words, and the compiler's complaints in few lines.
// In: LATHE_CC, LATHE_SANITIZE, a target's flags. Out: processes that turn C into shared objects.
// Invariant: the same words are run and hashed, so no flag can miss the cache key.
// Example: LATHE_CC="ccache gcc" → ccache gcc -std=gnu11 -O2 … -mavx2 -o k.so k.c -lm
#include "runtime/system_compiler.h"

#include <string.h>
#include "base/map.h"
#include "base/os.h"
#include "base/settings.h"
#include "base/vec.h"

// Contraction and errno are off because multiply-add is an op and the math library's errors are
// nobody's concern; integers wrap and types may alias because that is what the ops of ir/ops.def
// mean. -w: the text is generated, warnings about it help no user.
static const char FIXED_FLAGS[] = "-std=gnu11 -O2 -ffp-contract=off -fno-math-errno -fwrapv "
                                  "-fno-strict-aliasing -shared -fPIC -w";

enum { VERSION_TIMEOUT_MS = 20000, QUOTED_LINES = 6, QUOTED_BYTES = 600 };

typedef struct Words { const char **at; size_t len, cap; } Words;

static void words_add(Arena *arena, Words *words, const char *text) {
    static const char blanks[] = " \t\n";
    for (const char *at = text + strspn(text, blanks); *at; at += strspn(at, blanks)) {
        size_t len = strcspn(at, blanks);
        vec_push(arena, words, text_cstr(arena, (Text){at, len}));
        at += len;
    }
}

// What `program --version` prints, from the folder of earlier answers where it is there.
static bool version_find(Arena *arena, const char *program, const char *place,
                         const char *version_folder, Text *out, Error *err) {
    Error ignored;
    const char *kept = NULL;
    if (*version_folder) {
        uint64_t hash = hash_bytes(place, strlen(place), 0);
        kept = arena_printf(arena, "%s/%016llx.txt", version_folder, (unsigned long long)hash);
        if (file_read(arena, kept, out, &ignored) && out->len > 0) return true;
    }
    int status;
    const char *const argv[] = {program, "--version", NULL};
    TRY(process_run(arena, argv, VERSION_TIMEOUT_MS, &status, out, err));
    // Not being able to keep it costs a process at the next start and nothing else.
    if (kept && dir_make(version_folder, &ignored))
        (void)!file_write_atomic(kept, out->at, out->len, &ignored);
    return true;
}

bool compiler_open(SystemCompiler *compiler, Arena *arena, const char *target_flags,
                   const char *version_folder, Error *err) {
    Words words = {0}, flags = {0};
    const char *cc = setting_text(SETTING_CC);
    words_add(arena, &words, cc);
    const char *program = words.len ? program_find(arena, words.at[0]) : NULL;
    FileStamp stamp;
    if (!program || !file_stamp(program, &stamp))
        return fail(err, LATHE_COMPILE,
                    "no C compiler: \"%s\" is not a program on this machine; install one (Debian: "
                    "apt-get install "
                    "gcc libc6-dev) or set LATHE_CC to its path",
                    cc);
    words_add(arena, &flags, FIXED_FLAGS);
    words_add(arena, &flags, target_flags);
    words_add(arena, &flags, setting_text(SETTING_SANITIZE));
    TextBuilder text = builder(arena);
    for (size_t i = 1; i < words.len; i++) builder_printf(&text, "%s ", words.at[i]);
    for (size_t i = 0; i < flags.len; i++) {
        builder_printf(&text, "%s ", flags.at[i]);
        vec_push(arena, &words, flags.at[i]);
    }
    const char *place =
        arena_printf(arena, "%s %llu %llu %llu", program, (unsigned long long)stamp.nbytes,
                     (unsigned long long)stamp.modified_ns, (unsigned long long)stamp.inode);
    Text version;
    TRY(version_find(arena, program, place, version_folder, &version, err));
    compiler->n_words = (int)words.len;
    compiler->flags = builder_cstr(&text);
    compiler->identity = arena_printf(arena, "%s\n%.*s", place, (int)version.len, version.at);
    words.at[0] = program;
    vec_push(arena, &words, NULL);
    compiler->words = words.at;
    return true;
}

// The first lines of what the compiler said, with the source's long path cut down to its last part.
static Text complaint_of(Arena *arena, const char *program, int status, Text said,
                         const char *source_path) {
    TextBuilder b = builder(arena);
    builder_printf(&b, "%s ended with status %d and said%s", program, status, said.len ? ":" : " nothing");
    const char *slash = strrchr(source_path, '/');
    size_t skip = slash ? (size_t)(slash + 1 - source_path) : 0;
    said = utf8_clean(arena, said);
    size_t end = b.len + QUOTED_BYTES;
    for (int lines = 0; lines < QUOTED_LINES && said.len > 0 && b.len < end; lines++) {
        const char *newline = memchr(said.at, '\n', said.len);
        size_t len = newline ? (size_t)(newline - said.at) : said.len;
        Text line = {said.at, len};
        if (skip && text_starts(line, source_path)) line = (Text){line.at + skip, line.len - skip};
        builder_printf(&b, "\n  %.*s", (int)(line.len < QUOTED_BYTES ? line.len : QUOTED_BYTES),
                       line.at);
        said.at += len + (newline != NULL);
        said.len -= len + (newline != NULL);
    }
    builder_cstr(&b);
    return builder_view(&b);
}

// A compiler that dies of itself is no fault of the text: less of its work may spare the part that breaks.
static bool died_of_itself(Arena *arena, Text said) { return strstr(text_cstr(arena, said), "internal compiler error"); }

bool compiler_run(const SystemCompiler *compiler, Arena *arena, const char *source_path,
                  const char *object_path, Text *complaint) {
    size_t n = (size_t)compiler->n_words;
    const char **argv = arena_new(arena, (n + 6) * sizeof *argv);
    memcpy(argv, compiler->words, n * sizeof *argv);
    const char *const rest[] = {"-o", object_path, source_path, "-lm", NULL, NULL};
    memcpy(argv + n, rest, sizeof rest);
    int status;
    Text output;
    Error why;
    bool ran = process_run(arena, argv, COMPILE_TIMEOUT_MS, &status, &output, &why);
    if (ran && status != 0 && died_of_itself(arena, output)) {
        argv[n + 4] = "-O1";   // the last one counts
        ran = process_run(arena, argv, COMPILE_TIMEOUT_MS, &status, &output, &why);
    }
    if (!ran) {
        *complaint = text_copy(arena, text_of(why.text));
        return false;
    }
    if (status != 0) *complaint = complaint_of(arena, argv[0], status, output, source_path);
    else if (!file_exists(object_path)) {
        status = -1;
        *complaint = text_of(arena_printf(arena, "%s ended well but wrote no object; is it a C compiler? (LATHE_CC)", argv[0]));
    }
    return status == 0;
}
