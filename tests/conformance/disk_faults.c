/* A disk that fails under a server: loaded before the C library by all of its processes. A file whose path is in
   FAULTS says what fails from now on: "write 28", "sync 5". Without the file nothing does. Only data is touched,
   the tables' files and the log of writes: what a server writes elsewhere concerns nobody. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int fails(const char *what, int file) {
    char text[32], link[64], name[4096];
    const char *control = getenv("FAULTS");
    int found = control ? syscall(SYS_openat, AT_FDCWD, control, O_RDONLY) : -1;
    if (found < 0) return 0;
    ssize_t length = syscall(SYS_read, found, text, sizeof text - 1);
    syscall(SYS_close, found);
    if (length <= 0) return 0;
    text[length] = 0;
    if (strncmp(text, what, strlen(what)) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    length = readlink(link, name, sizeof name - 1);
    if (length < 0) return 0;
    name[length] = 0;
    if (!strstr(name, "/base/") && !strstr(name, "/pg_wal/")) return 0;
    errno = atoi(text + strlen(what) + 1);
    return 1;
}

#define REAL(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))

int fsync(int file) { return fails("sync", file) ? -1 : REAL(int, "fsync", int)(file); }
int fdatasync(int file) { return fails("sync", file) ? -1 : REAL(int, "fdatasync", int)(file); }
ssize_t write(int file, const void *from, size_t size) {
    return fails("write", file) ? -1 : REAL(ssize_t, "write", int, const void *, size_t)(file, from, size);
}
ssize_t pwrite(int file, const void *from, size_t size, off_t at) {
    return fails("write", file) ? -1 : REAL(ssize_t, "pwrite", int, const void *, size_t, off_t)(file, from, size, at);
}
ssize_t pwrite64(int file, const void *from, size_t size, off64_t at) {
    return fails("write", file) ? -1 : REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t)(file, from, size, at);
}
ssize_t pwritev(int file, const struct iovec *from, int count, off_t at) {
    return fails("write", file) ? -1 : REAL(ssize_t, "pwritev", int, const struct iovec *, int, off_t)(file, from, count, at);
}
ssize_t pwritev64(int file, const struct iovec *from, int count, off64_t at) {
    return fails("write", file) ? -1 : REAL(ssize_t, "pwritev64", int, const struct iovec *, int, off64_t)(file, from, count, at);
}
int posix_fallocate(int file, off_t at, off_t size) {
    return fails("write", file) ? errno : REAL(int, "posix_fallocate", int, off_t, off_t)(file, at, size);
}
int posix_fallocate64(int file, off64_t at, off64_t size) {
    return fails("write", file) ? errno : REAL(int, "posix_fallocate64", int, off64_t, off64_t)(file, at, size);
}
