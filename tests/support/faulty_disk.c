/* Preloaded into a process, lets calls on the files of one folder fail or end the process.

   faulty_disk_arm(folder, nth, n_failures, error) makes the nth counted call and those after it,
   n_failures in all, return `error`; error 0 ends the process by SIGKILL there.  A write that fails
   has written its first half.  Random numbers are zeros: SQLite puts one into each journal.
   faulty_disk_calls() returns how many calls were counted since, and
   faulty_disk_kinds() their kinds: w(rite), i(nput), s(ync), t(runcate), o(pen), r(ename),
   u(nlink), l(ink), m(map). */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define REAL(name, ...) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)
#define MAX_KINDS 4096

static char folder[PATH_MAX];
static long first, last, n_calls;
static int error_number;
static char kinds[MAX_KINDS + 1];

void faulty_disk_arm(const char *path, long nth, long n_failures, int error)
{
    n_calls = 0;
    memset(kinds, 0, sizeof kinds);
    first = nth;
    last = nth + n_failures;
    error_number = error;
    snprintf(folder, sizeof folder, "%s", path);
}

long faulty_disk_calls(void) { return n_calls; }
const char *faulty_disk_kinds(void) { return kinds; }

static int is_inside(const char *path) { return *folder && strncmp(path, folder, strlen(folder)) == 0; }

static int is_inside_fd(int fd)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    return is_inside(path);
}

/* Counts a call; returns whether it fails, with errno set. */
static int fails(char kind)
{
    if (n_calls < MAX_KINDS)
        kinds[n_calls] = kind;
    n_calls++;
    if (n_calls < first || n_calls >= last)
        return 0;
    if (error_number == 0)
        kill(getpid(), SIGKILL);
    errno = error_number;
    return 1;
}

/* Whether a write fails, which has then written its first half. */
#define WRITE_FAILS(fd, ...) (is_inside_fd(fd) && n_calls + 1 >= first && n_calls + 1 < last \
    ? (__VA_ARGS__, fails('w')) : is_inside_fd(fd) && fails('w'))

ssize_t write(int fd, const void *data, size_t n)
{
    return WRITE_FAILS(fd, REAL(write, fd, data, n / 2)) ? -1 : REAL(write, fd, data, n);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    return WRITE_FAILS(fd, REAL(pwrite, fd, data, n / 2, at)) ? -1 : REAL(pwrite, fd, data, n, at);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at)
{
    return WRITE_FAILS(fd, REAL(pwrite64, fd, data, n / 2, at)) ? -1
                                                                : REAL(pwrite64, fd, data, n, at);
}

ssize_t read(int fd, void *data, size_t n)
{
    return is_inside_fd(fd) && fails('i') ? -1 : REAL(read, fd, data, n);
}

ssize_t pread(int fd, void *data, size_t n, off_t at)
{
    return is_inside_fd(fd) && fails('i') ? -1 : REAL(pread, fd, data, n, at);
}

ssize_t pread64(int fd, void *data, size_t n, off64_t at)
{
    return is_inside_fd(fd) && fails('i') ? -1 : REAL(pread64, fd, data, n, at);
}

int fsync(int fd) { return is_inside_fd(fd) && fails('s') ? -1 : REAL(fsync, fd); }
int fdatasync(int fd) { return is_inside_fd(fd) && fails('s') ? -1 : REAL(fdatasync, fd); }

int ftruncate(int fd, off_t n)
{
    return is_inside_fd(fd) && fails('t') ? -1 : REAL(ftruncate, fd, n);
}

int ftruncate64(int fd, off64_t n)
{
    return is_inside_fd(fd) && fails('t') ? -1 : REAL(ftruncate64, fd, n);
}

int rename(const char *from, const char *to)
{
    return is_inside(to) && fails('r') ? -1 : REAL(rename, from, to);
}

int symlink(const char *target, const char *path)
{
    return is_inside(path) && fails('l') ? -1 : REAL(symlink, target, path);
}

int unlink(const char *path) { return is_inside(path) && fails('u') ? -1 : REAL(unlink, path); }

#define OPEN(name)                                                                            \
    int name(const char *path, int flags, ...)                                                \
    {                                                                                         \
        va_list rest;                                                                         \
        va_start(rest, flags);                                                                \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;               \
        va_end(rest);                                                                         \
        if (strcmp(path, "/dev/urandom") == 0)                                                \
            path = "/dev/zero";                                                               \
        return is_inside(path) && fails('o') ? -1 : REAL(name, path, flags, mode);            \
    }
OPEN(open)
OPEN(open64)

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    int is_failing = fd >= 0 && is_inside_fd(fd) && fails('m');
    return is_failing ? MAP_FAILED : REAL(mmap, at, n, protection, flags, fd, offset);
}
