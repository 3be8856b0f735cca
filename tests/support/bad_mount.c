/* A library for LD_PRELOAD, which makes the mounted checkpoint `target` fail. The environment
   variable MOUNT says how: with `slow`, reading a file yields one byte per second; with `gone`,
   opening a file fails as on a FUSE mount whose process has ended (ENOTCONN). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int slow_file = -1;

static int is_trouble(const char *wanted) {
    const char *mount = getenv("MOUNT");
    return mount && !strcmp(mount, wanted);
}

int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const int mode = flags & O_CREAT ? va_arg(more, int) : 0;
    va_end(more);
    if (is_trouble("gone") && strstr(path, "/target/")) {
        errno = ENOTCONN;
        return -1;
    }
    int (*next)(const char *, int, ...) = dlsym(RTLD_NEXT, "open64");
    const int opened = next(path, flags, mode);
    const int is_file = strstr(path, "/target/") && !strstr(path, "_READY");
    if (is_trouble("slow") && is_file) slow_file = opened;
    return opened;
}

int open(const char *path, int flags, ...) __attribute__((alias("open64")));

ssize_t read(int file, void *buffer, size_t count) {
    ssize_t (*next)(int, void *, size_t) = dlsym(RTLD_NEXT, "read");
    if (file < 0 || file != slow_file) return next(file, buffer, count);
    sleep(1);
    return next(file, buffer, 1);
}
