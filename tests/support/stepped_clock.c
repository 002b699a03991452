/* Preloaded into a process, sets its clocks apart from the machine's, by two numbers of nanoseconds in the file that
   STEPPED_CLOCK names, which may change meanwhile. The first steps the wall clock. The second is how long the machine
   was suspended: CLOCK_MONOTONIC stood still for so long, while CLOCK_BOOTTIME went on. The kernel, which knows nothing
   of either, gets the machine's time wherever it is asked to wait until a time of one of these clocks. */
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

struct offsets {
    int64_t step;
    int64_t suspended;
};

static const struct offsets none = {0, 0};
static const volatile struct offsets *offsets = &none;
static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_clock_nanosleep)(clockid_t, int, const struct timespec *, struct timespec *);
static int (*real_cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_cond_clockwait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
static int (*real_sem_clockwait)(sem_t *, clockid_t, const struct timespec *);
static int (*real_sem_timedwait)(sem_t *, const struct timespec *);
static long (*real_syscall)(long, ...);

__attribute__((constructor)) static void prepare(void) {
    if (real_clock_gettime)
        return;
    real_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    real_sem_timedwait = (int (*)(sem_t *, const struct timespec *))dlsym(RTLD_NEXT, "sem_timedwait");
    /* Since version 2.30 of the C library. */
    real_sem_clockwait = (int (*)(sem_t *, clockid_t, const struct timespec *))dlsym(RTLD_NEXT, "sem_clockwait");
    real_cond_clockwait = (int (*)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *))dlsym(
        RTLD_NEXT, "pthread_cond_clockwait");
    real_clock_nanosleep =
        (int (*)(clockid_t, int, const struct timespec *, struct timespec *))dlsym(RTLD_NEXT, "clock_nanosleep");
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
        offsets = mapped;
}

static struct timespec shifted(const struct timespec *at, int64_t by) {
    int64_t all = at->tv_sec * INT64_C(1000000000) + at->tv_nsec + by;
    return (struct timespec){.tv_sec = all / 1000000000, .tv_nsec = all % 1000000000};
}

static struct timespec of_the_machine(const struct timespec *at) {
    return shifted(at, at->tv_sec < WALL_CLOCK_SECONDS ? offsets->suspended : -offsets->step);
}

static int stands_still(clockid_t clock) {
    return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_MONOTONIC_RAW;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    prepare();
    int failed = real_clock_gettime(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        *now = shifted(now, offsets->step);
    else if (!failed && stands_still(clock))
        *now = shifted(now, -offsets->suspended);
    return failed;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *request, struct timespec *left) {
    prepare();
    if (!(flags & TIMER_ABSTIME) || (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC))
        return real_clock_nanosleep(clock, flags, request, left);
    struct timespec at = of_the_machine(request);
    return real_clock_nanosleep(clock, flags, &at, left);
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

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t clock,
                           const struct timespec *restrict until) {
    prepare();
    struct timespec at = of_the_machine(until);
    return real_cond_clockwait(condition, mutex, clock, &at);
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict until) {
    prepare();
    struct timespec at = of_the_machine(until);
    return real_sem_clockwait(semaphore, clock, &at);
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
    /* FUTEX_WAIT_BITSET waits until a time: of the wall clock with that flag, else of the monotonic one. */
    int command = (int)a[1] & FUTEX_CMD_MASK;
    if (number == SYS_futex && a[3] && (command == FUTEX_WAIT_BITSET || a[1] & FUTEX_CLOCK_REALTIME)) {
        at = of_the_machine((const struct timespec *)a[3]);
        a[3] = (long)&at;
    }
    return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
