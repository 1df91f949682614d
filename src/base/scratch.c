// scratch: see scratch.h. In: TMPDIR. Out: TMPDIR/lathe-scratch-XXXXXX, locked.
// Invariant: who removes a folder holds its lock, so two sweepers do not meet.
// Example: kill -9 while kernels compile, then run again an hour later: the folder of the first run is gone.
#define _GNU_SOURCE
#include "base/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/os.h"

static const char PREFIX[] = "lathe-scratch-";
// Between making a folder and locking it nobody owns it; and a refused source should be there for its reader.
enum { SAFE_S = 3600 };

static int folder_lock(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

static bool is_left_over(int lock) {
    struct stat info;
    return fstat(lock, &info) == 0 && info.st_uid == geteuid() && time(NULL) - info.st_mtime > SAFE_S;
}

static void left_overs_remove(const char *parent) {
    DIR *dir = opendir(parent);
    if (!dir) return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[512];
        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) != 0) continue;
        if (snprintf(path, sizeof path, "%s/%s", parent, entry->d_name) >= (int)sizeof path) continue;
        int lock = folder_lock(path);
        if (lock < 0) continue;
        if (is_left_over(lock)) dir_remove(path);
        close(lock);
    }
    closedir(dir);
}

bool scratch_open(Scratch *scratch, Error *err) {
    *scratch = (Scratch){.lock = -1};
    left_overs_remove(dir_of_temporaries());
    if (!dir_temporary(scratch->path, sizeof scratch->path, PREFIX, err)) {
        scratch->path[0] = '\0';
        return false;
    }
    scratch->lock = folder_lock(scratch->path);
    return true;
}

void scratch_abandon(Scratch *scratch) {
    if (*scratch->path && scratch->lock >= 0) close(scratch->lock);
    *scratch = (Scratch){.lock = -1};
}

void scratch_close(Scratch *scratch) {
    if (*scratch->path) dir_remove(scratch->path);
    scratch_abandon(scratch);
}
