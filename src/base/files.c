// files: the file half of os.h, in plain POSIX.
// In: paths. Out: maps, texts, directories; a refusal is an Error with path and system's words.
// Invariant: a file is replaced whole or not at all; what fails leaves no descriptor, map or file.
// Example: FileMap m; TRY(file_map(&m, "m.gguf", err)); read m.data[m.nbytes - 1]; file_unmap(&m);
#define _GNU_SOURCE
#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/settings.h"
#include "base/vec.h"

static const size_t LARGEST_READ_BYTES = (size_t)1 << 30;

// Opens for reading and says what it is; a path that names nothing useful is explained here, once.
// more_flags: O_NONBLOCK where a pipe that nobody writes to must not hold us up.
static bool file_open(const char *path, int more_flags, int *fd, struct stat *info, Error *err) {
    if (!*path) return fail(err, LATHE_BAD_REQUEST, "the name of a file is empty");
    *fd = open(path, O_RDONLY | O_CLOEXEC | more_flags);
    if (*fd < 0) return fail(err, LATHE_IO, "%s: cannot open it: %s", path, strerror(errno));
    if (fstat(*fd, info) != 0) {
        int why = errno;
        close(*fd);
        return fail(err, LATHE_IO, "%s: cannot read its size: %s", path, strerror(why));
    }
    if (S_ISDIR(info->st_mode)) {
        close(*fd);
        return fail(err, LATHE_BAD_FILE, "%s is a directory; name a file inside it", path);
    }
    return true;
}

static bool file_map_open(FileMap *map, int fd, const char *path, Error *err) {
    size_t file_bytes = page_round(map->nbytes);
    size_t align = page_alignment(map->nbytes);   // the page cache may hold large pages
    map->reserved_bytes = file_bytes + align;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    uint8_t *at = mmap(NULL, map->reserved_bytes, PROT_NONE, flags, -1, 0);
    if (at == MAP_FAILED)
        return fail(err, LATHE_NO_MEMORY, "%s: no address space for %zu bytes: %s", path,
                    map->reserved_bytes, strerror(errno));
    map->reservation = at;
    at += (align - (uintptr_t)at % align) % align;
    map->data = at;
    bool ok = !file_bytes ||
              mmap(at, map->nbytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) != MAP_FAILED;
    ok = ok && mprotect(at + file_bytes, page_round(1), PROT_READ) == 0;
#if defined MADV_HUGEPAGE
    if (ok && align > page_round(1)) madvise(at, map->nbytes, MADV_HUGEPAGE);   // no harm where it is refused
#endif
    if (ok) return true;
    int why = errno;
    file_unmap(map);
    return fail(err, LATHE_IO, "%s: cannot map it into memory: %s", path, strerror(why));
}

bool file_map(FileMap *map, const char *path, Error *err) {
    *map = (FileMap){0};
    int fd;
    struct stat info;
    TRY(file_open(path, O_NONBLOCK, &fd, &info, err));
    bool ok;
    if (!S_ISREG(info.st_mode))
        ok = fail(err, LATHE_BAD_FILE, "%s is not a regular file; copy its contents into one first",
                  path);
    else if (info.st_size < 0 || (uint64_t)info.st_size > SIZE_MAX / 2)
        ok = fail(err, LATHE_BAD_FILE, "%s: too large for this machine's address space", path);
    else {
        map->nbytes = (size_t)info.st_size;
        ok = file_map_open(map, fd, path, err);
    }
    close(fd);
    return ok;
}

void file_unmap(FileMap *map) {
    if (map->reservation) munmap(map->reservation, map->reserved_bytes);
    *map = (FileMap){0};
}

// All that the descriptor gives; one that does not block is waited for.
static bool read_all(Arena *arena, int fd, const char *path, size_t expected_bytes, Text *out, Error *err) {
    size_t cap = expected_bytes ? expected_bytes + 1 : 4096, len = 0;
    char *at = NULL;
    int why = 0;
    while (cap <= LARGEST_READ_BYTES + 1) {
        char *grown = arena_alloc(arena, cap + 1);
        if (!grown) why = ENOMEM;
        if (why) break;
        if (len) memcpy(grown, at, len);
        at = grown;
        ssize_t n = 1;
        while (len < cap && (n = read(fd, at + len, cap - len)) != 0) {
            struct pollfd ready = {.fd = fd, .events = POLLIN};
            if (n > 0)
                len += (size_t)n;
            else if (errno == EAGAIN)
                poll(&ready, 1, -1);
            else if (errno != EINTR)
                break;
        }
        if (n < 0) why = errno;
        if (n <= 0) break;
        cap *= 2;
    }
    if (why) return fail(err, LATHE_IO, "%s: cannot read it: %s", path, strerror(why));
    if (cap > LARGEST_READ_BYTES + 1)
        return fail(err, LATHE_BAD_FILE, "%s: longer than %zu bytes; too large to read as a whole",
                    path, LARGEST_READ_BYTES);
    *out = (Text){at, len};
    return true;
}

bool file_read(Arena *arena, const char *path, Text *out, Error *err) {
    int fd;
    struct stat info;
    TRY(file_open(path, 0, &fd, &info, err));
    bool ok = read_all(arena, fd, path, info.st_size > 0 ? (size_t)info.st_size : 0, out, err);
    close(fd);
    return ok;
}

// Not by the name /dev/stdin: a socket cannot be opened again, nor may a terminal that belongs to another user.
bool file_or_input_read(Arena *arena, const char *path, Text *out, Error *err) {
    if (strcmp(path, "-") != 0) return file_read(arena, path, out, err);
    return read_all(arena, STDIN_FILENO, "standard input", 0, out, err);
}

static bool write_all(int fd, const uint8_t *at, size_t nbytes) {
    while (nbytes > 0) {
        ssize_t n = write(fd, at, nbytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        nbytes -= (size_t)n;
    }
    return true;
}

bool file_write_atomic(const char *path, const void *data, size_t nbytes, Error *err) {
    // The name is this call's own: threads and processes may write one path at once.
    static atomic_uint calls;
    char aside[PATH_MAX];
    int len = snprintf(aside, sizeof aside, "%s.%ld-%u.tmp", path, process_id(),
                       atomic_fetch_add(&calls, 1));
    if (len < 0 || (size_t)len >= sizeof aside)
        return fail(err, LATHE_IO, "%s: the path is too long", path);
    int fd = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return fail(err, LATHE_IO, "%s: cannot create it: %s", path, strerror(errno));
    bool ok = write_all(fd, data, nbytes);
    int why = errno;
    if (close(fd) != 0 && ok) {
        ok = false;
        why = errno;
    }
    if (ok && rename(aside, path) != 0) {
        ok = false;
        why = errno;
    }
    if (ok) return true;
    unlink(aside);
    return fail(err, LATHE_IO, "%s: cannot write it: %s", path, strerror(why));
}

bool file_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

static bool file_is_program(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

// Links are not resolved: what a program does may depend on the name it is called by.
const char *program_find(Arena *arena, const char *name) {
    if (strchr(name, '/')) {
        char here[PATH_MAX];
        const char *full = name;
        if (*name != '/' && getcwd(here, sizeof here))
            full = arena_printf(arena, "%s/%s", here, name);
        return file_is_program(full) ? full : NULL;
    }
    const char *path = getenv("PATH");
    for (const char *from = path && *path ? path : "/usr/local/bin:/usr/bin:/bin"; *from;) {
        size_t len = strcspn(from, ":");
        const char *full = arena_printf(arena, "%.*s/%s", (int)len, from, name);
        if (len && file_is_program(full)) return full;
        from += len + (from[len] == ':');
    }
    return NULL;
}

bool dir_make(const char *path, Error *err) {
    char part[PATH_MAX];
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof part)
        return fail(err, LATHE_IO, "\"%s\": not a usable directory name", path);
    memcpy(part, path, len + 1);
    int why = 0;
    for (size_t i = 1; i <= len; i++) {
        if (part[i] != '/' && part[i] != '\0') continue;
        char rest = part[i];
        part[i] = '\0';
        // A parent may exist and still answer EROFS, so only the whole path's outcome counts.
        why = mkdir(part, 0700) == 0 || errno == EEXIST ? 0 : errno;
        part[i] = rest;
    }
    struct stat info;
    if (stat(path, &info) != 0)
        return fail(err, LATHE_IO, "%s: cannot create this directory: %s", path,
                    strerror(why ? why : errno));
    if (!S_ISDIR(info.st_mode))
        return fail(err, LATHE_IO, "%s: exists and is not a directory", path);
    return true;
}

bool dir_is_private(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) &&
           (info.st_uid == geteuid() || info.st_uid == 0) &&
           (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

const char *dir_of_temporaries(void) {
    const char *chosen = getenv("TMPDIR");
    return chosen && *chosen ? chosen : "/tmp";
}

bool dir_temporary(char *out, size_t cap, const char *prefix, Error *err) {
    int len = snprintf(out, cap, "%s/%sXXXXXX", dir_of_temporaries(), prefix);
    if (len < 0 || (size_t)len >= cap) return fail(err, LATHE_IO, "TMPDIR: the path is too long");
    if (!mkdtemp(out))
        return fail(err, LATHE_IO,
                    "%s: cannot create a temporary directory: %s; set TMPDIR to a writable one",
                    out, strerror(errno));
    return true;
}

static int entry_remove(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)info, (void)kind, (void)place;
    remove(path);
    return 0;
}

void dir_remove(const char *path) {
    nftw(path, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
}

typedef struct DatedFile { const char *path; uint64_t modified_ns; } DatedFile;
typedef struct DatedFiles { DatedFile *at; size_t len, cap; } DatedFiles;

static int dated_compare(const void *a, const void *b) {
    uint64_t x = ((const DatedFile *)a)->modified_ns, y = ((const DatedFile *)b)->modified_ns;
    return (x > y) - (x < y);
}

void dir_prune(const char *path, size_t max_files) {
    DIR *dir = opendir(path);
    if (!dir) return;
    Arena *arena = arena_create();
    DatedFiles files = {0};
    for (struct dirent *entry; (entry = readdir(dir));) {
        FileStamp stamp;
        DatedFile file = {arena_printf(arena, "%s/%s", path, entry->d_name), 0};
        if (entry->d_name[0] == '.' || !file_stamp(file.path, &stamp)) continue;
        file.modified_ns = stamp.modified_ns;
        vec_push(arena, &files, file);
    }
    closedir(dir);
    if (files.len > max_files) {
        qsort(files.at, files.len, sizeof *files.at, dated_compare);
        for (size_t i = 0; i < files.len - max_files / 2; i++) unlink(files.at[i].path);
    }
    arena_destroy(arena);
}

const char *cache_dir(Arena *arena) {
    const char *own = setting_text(SETTING_CACHE_DIR), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    char here[PATH_MAX];
    // A relative path is made absolute, so that a later chdir does not move the cache.
    if (*own && *own != '/' && getcwd(here, sizeof here))
        return arena_printf(arena, "%s/%s", here, own);
    if (*own) return arena_printf(arena, "%s", own);
    // The XDG specification tells programs to ignore a relative path here.
    if (xdg && *xdg == '/') return arena_printf(arena, "%s/lathe", xdg);
    if (home && *home == '/') return arena_printf(arena, "%s/.cache/lathe", home);
    return arena_printf(arena, "/tmp/lathe-%ld", (long)geteuid());
}
