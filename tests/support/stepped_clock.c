/* Preloaded into a process, sets its wall clock apart from the machine's: by the nanoseconds in the file that
   STEPPED_CLOCK names, which may change meanwhile. The monotonic clock stays as it is, and the kernel, which knows
   nothing of the step, is told the machine's time wherever it is asked to wait until a time of the wall clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* A time of the monotonic clock counts from the machine's start, and is never so late. */
#define WALL_CLOCK_SECONDS 1000000000

static const int64_t none = 0;
static const volatile int64_t *step = &none;
static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_sem_timedwait)(sem_t *, const struct timespec *);
static long (*real_syscall)(long, ...);

__attribute__((constructor)) static void prepare(void) {
    if (real_clock_gettime)
        return;
    real_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    real_sem_timedwait = (int (*)(sem_t *, const struct timespec *))dlsym(RTLD_NEXT, "sem_timedwait");
    /* The first of its versions has another kind of condition. */
    void *waits = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    real_cond_timedwait = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))(
        waits ? waits : dlsym(RTLD_NEXT, "pthread_cond_timedwait"));
    real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("STEPPED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        step = mapped;
}

static struct timespec shifted(const struct timespec *at, int64_t by) {
    int64_t all = at->tv_sec * INT64_C(1000000000) + at->tv_nsec + by;
    return (struct timespec){.tv_sec = all / 1000000000, .tv_nsec = all % 1000000000};
}

static struct timespec of_the_machine(const struct timespec *at) {
    return at->tv_sec < WALL_CLOCK_SECONDS ? *at : shifted(at, -*step);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    prepare();
    int failed = real_clock_gettime(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        *now = shifted(now, *step);
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    *now = (struct timeval){.tv_sec = exact.tv_sec, .tv_usec = exact.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now)
        *now = exact.tv_sec;
    return exact.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    prepare();
    struct timespec at = of_the_machine(until);
    return real_cond_timedwait(condition, mutex, &at);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    prepare();
    struct timespec at = of_the_machine(until);
    return real_sem_timedwait(semaphore, &at);
}

long syscall(long number, ...) {
    va_list given;
    long a[6];
    va_start(given, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(given, long);
    va_end(given);
    prepare();
    struct timespec at;
    if (number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME) && a[3]) {
        at = of_the_machine((const struct timespec *)a[3]);
        a[3] = (long)&at;
    }
    return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
