/* Loaded before libc (LD_PRELOAD): calls that write files of the store fail, stop half-way, or kill the process, and
   the clock is set to and fro. What is to happen is read from a small file that the torturer maps too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum mode { OFF, ERROR_IO, DISK_FULL, SHORT_WRITE, KILL_BEFORE, KILL_AMID, KILL_AFTER };

struct control {
    volatile int32_t mode;
    volatile int32_t at;     /* the call that is hit, counted from 1 */
    volatile int32_t until;  /* calls up to this one are hit too */
    volatile int32_t seen;   /* calls so far */
    volatile int32_t fired;  /* calls that were hit */
    volatile int32_t unused;
    volatile int64_t clock_s; /* added to the time of day */
};

static struct control *control;
static const char *name;

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("TORTURE_CONTROL");
    name = getenv("TORTURE_FILE");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *found = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (found != MAP_FAILED) control = found;
}

static int is_of_store(int fd) {
    char link[64] = "/proc/self/fd/", path[4096];
    char digits[16];
    int n = 0, length = 14;
    do digits[n++] = '0' + fd % 10; while ((fd /= 10) > 0);
    while (n > 0) link[length++] = digits[--n];
    link[length] = 0;
    ssize_t found = readlink(link, path, sizeof path - 1);
    if (found <= 0) return 0;
    path[found] = 0;
    return strstr(path, name) != NULL;
}

/* What is to happen to this call. */
static enum mode turn(int fd) {
    enum mode mode = control ? control->mode : OFF; /* once: it may have been switched off */
    if (!name || mode == OFF || fd < 0 || !is_of_store(fd)) return OFF;
    int32_t number = __sync_add_and_fetch(&control->seen, 1);
    if (number < control->at || number > control->until) return OFF;
    __sync_add_and_fetch(&control->fired, 1);
    return mode;
}

static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

static ssize_t do_write(int fd, const void *bytes, size_t size, off_t place) {
    if (place < 0) return syscall(SYS_write, fd, bytes, size);
    return syscall(SYS_pwrite64, fd, bytes, size, place);
}

static ssize_t tortured_write(int fd, const void *bytes, size_t size, off_t place) {
    ssize_t done;
    switch (turn(fd)) {
    case ERROR_IO: errno = EIO; return -1;
    case DISK_FULL: errno = ENOSPC; return -1;
    case SHORT_WRITE: return do_write(fd, bytes, size / 2, place);
    case KILL_BEFORE: die();
    case KILL_AMID: do_write(fd, bytes, size / 2, place); die();
    case KILL_AFTER: done = do_write(fd, bytes, size, place); die(); return done;
    default: return do_write(fd, bytes, size, place);
    }
}

ssize_t write(int fd, const void *bytes, size_t size) { return tortured_write(fd, bytes, size, -1); }
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t place) { return tortured_write(fd, bytes, size, place); }
ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t place) { return tortured_write(fd, bytes, size, place); }

static int tortured_call(int fd, long number, long argument) {
    int result;
    switch (turn(fd)) {
    case ERROR_IO: case DISK_FULL: case SHORT_WRITE: errno = EIO; return -1;
    case KILL_BEFORE: case KILL_AMID: die();
    case KILL_AFTER: result = syscall(number, fd, argument); die(); return result;
    default: return syscall(number, fd, argument);
    }
}

int fsync(int fd) { return tortured_call(fd, SYS_fsync, 0); }
int fdatasync(int fd) { return tortured_call(fd, SYS_fdatasync, 0); }
int ftruncate(int fd, off_t length) { return tortured_call(fd, SYS_ftruncate, length); }
int ftruncate64(int fd, off_t length) { return tortured_call(fd, SYS_ftruncate, length); }

int clock_gettime(clockid_t clock, struct timespec *found) {
    int result = syscall(SYS_clock_gettime, clock, found);
    if (result == 0 && control && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        found->tv_sec += control->clock_s;
    return result;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}
