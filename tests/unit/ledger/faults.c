/* A disk that fails: loaded before the C library, it lets some calls pass and then fails writes or syncs.
   Or a file system on which locks do nothing. Only files whose name holds "ledger.sqlite" are touched. Armed from Python through ctypes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/types.h>

static int failing_writes, failing_syncs, remaining = -1, error_number;

void fault_arm(int writes, int syncs, int after, int error) {
    failing_writes = writes;
    failing_syncs = syncs;
    error_number = error;
    remaining = after;
}

static int without_locks;
void fault_locks(int gone) { without_locks = gone; }

static int ours(int file) {
    char link[64], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length < 0) return 0;
    name[length] = 0;
    return strstr(name, "ledger.sqlite") != NULL;
}

static int fails(int chosen, int file) {
    if (!chosen || remaining < 0 || !ours(file)) return 0;
    if (remaining > 0) { remaining--; return 0; }
    errno = error_number; /* and so do all that follow, until armed anew */
    return 1;
}

#define REAL(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))

int fsync(int file) { return fails(failing_syncs, file) ? -1 : REAL(int, "fsync", int)(file); }
int fdatasync(int file) { return fails(failing_syncs, file) ? -1 : REAL(int, "fdatasync", int)(file); }
ssize_t write(int file, const void *from, size_t size) {
    return fails(failing_writes, file) ? -1 : REAL(ssize_t, "write", int, const void *, size_t)(file, from, size);
}
ssize_t pwrite(int file, const void *from, size_t size, off_t at) {
    return fails(failing_writes, file) ? -1 : REAL(ssize_t, "pwrite", int, const void *, size_t, off_t)(file, from, size, at);
}
ssize_t pwrite64(int file, const void *from, size_t size, off64_t at) {
    return fails(failing_writes, file) ? -1 : REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t)(file, from, size, at);
}
int ftruncate64(int file, off64_t size) {
    return fails(failing_writes, file) ? -1 : REAL(int, "ftruncate64", int, off64_t)(file, size);
}
int fcntl64(int file, int command, ...) {
    va_list list;
    va_start(list, command);
    void *given = va_arg(list, void *);
    va_end(list);
    if (without_locks && ours(file) && (command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK)) return 0;
    return REAL(int, "fcntl64", int, int, ...)(file, command, given);
}
int fcntl(int file, int command, ...) {
    va_list list;
    va_start(list, command);
    void *given = va_arg(list, void *);
    va_end(list);
    return fcntl64(file, command, given);
}
