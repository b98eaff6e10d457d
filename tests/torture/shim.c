/* Stands between a process and the system (LD_PRELOAD): counts, records and spoils calls on the files of one folder.

   torture_arm() says which folder is watched, which is only recorded (the witness), at which call what happens, and
   where the record goes. Until then, and in every other folder, calls pass as they are. Linux only. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { GO = 0, KILL, AFTER, TORN, FAIL, STAY, VANISH, SEND };

struct told { uint64_t calls, fired, of_kind[128]; }; /* shared with whoever watches, so that it outlives this process */

static char watched[PATH_MAX], witness[PATH_MAX], victim[PATH_MAX], kinds[32];
static size_t watched_len, witness_len;
static uint64_t target;
static int action, argument, record_fd = -1, failing, saved_fd = -1;
static volatile int armed;
static struct told *told;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct head { uint8_t kind, seen; uint16_t path, other; uint16_t pad; uint64_t inode; int64_t offset; uint64_t size, data; };

/* `which` names the kinds of calls that count: a letter each, or "" for all. */
void torture_arm(const char *folder, const char *beside, uint64_t n, const char *which, int act, int arg,
                 const char *vanishing, const char *record, struct told *shared) {
    snprintf(watched, sizeof watched, "%s", folder);
    snprintf(witness, sizeof witness, "%s", beside);
    snprintf(victim, sizeof victim, "%s", vanishing);
    snprintf(kinds, sizeof kinds, "%s", which);
    watched_len = strlen(watched);
    witness_len = strlen(witness);
    target = n, action = act, argument = arg, told = shared, failing = 0;
    if (*record) {
        int fd = syscall(SYS_openat, AT_FDCWD, record, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        record_fd = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900);
        syscall(SYS_close, fd);
    }
    armed = 1;
}

void torture_disarm(void) { armed = 0; }

/* The file that vanished, still open; -1 where none did. */
int torture_saved(void) { return saved_fd; }

static int is_in(const char *path, const char *folder, size_t length) {
    return length && strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    char *gone = strstr(path, " (deleted)");
    if (gone)
        *gone = 0;
    return 1;
}

static int resolved(int folder, const char *name, char *path) {
    if (*name == '/')
        return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX;
    char base[PATH_MAX];
    if (folder == AT_FDCWD ? syscall(SYS_getcwd, base, sizeof base) < 0 : !path_of(folder, base))
        return 0;
    return snprintf(path, PATH_MAX, "%s/%s", base, name) < PATH_MAX;
}

/* 0: none of ours, 1: watched, 2: the witness */
static int whose(const char *path) {
    return is_in(path, witness, witness_len) ? 2 : is_in(path, watched, watched_len) ? 1 : 0;
}

static void note(char kind, int seen, const char *path, const char *other, uint64_t inode, int64_t offset, uint64_t size,
                 const void *data, uint64_t length) {
    if (record_fd < 0)
        return;
    struct head head = {kind, seen, strlen(path), strlen(other), 0, inode, offset, size, length};
    pthread_mutex_lock(&lock);
    syscall(SYS_write, record_fd, &head, sizeof head);
    syscall(SYS_write, record_fd, path, (size_t)head.path);
    syscall(SYS_write, record_fd, other, (size_t)head.other);
    for (uint64_t done = 0; done < length;) {
        ssize_t wrote = syscall(SYS_write, record_fd, (const char *)data + done, length - done);
        if (wrote <= 0)
            break;
        done += wrote;
    }
    pthread_mutex_unlock(&lock);
}

static void die(void) {
    for (;;)
        kill(getpid(), SIGKILL);
}

static int spoils(char kind) { /* what a full or broken disk says no to */
    return argument == ENOSPC ? strchr("WTOLNM", kind) != NULL : strchr("WTSRONLM", kind) != NULL;
}

/* What is to happen with this call; counts it. */
static int gate(char kind, const char *path) {
    if (!armed || whose(path) != 1 || (*kinds && !strchr(kinds, kind)))
        return GO;
    uint64_t n = __atomic_add_fetch(&told->calls, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&told->of_kind[(int)kind], 1, __ATOMIC_SEQ_CST);
    if (failing && spoils(kind))
        return FAIL;
    if (n != target || action == GO)
        return GO;
    if ((action == FAIL || action == STAY) && !spoils(kind))
        return GO;
    if (action == TORN && kind != 'W')
        return GO;
    told->fired = n;
    switch (action) {
    case KILL:
        die();
    case STAY:
        failing = 1;
        return FAIL;
    case VANISH:
        saved_fd = syscall(SYS_openat, AT_FDCWD, victim, O_RDONLY | O_CLOEXEC, 0);
        if (saved_fd < 0 || syscall(SYS_unlinkat, AT_FDCWD, victim, 0) < 0)
            told->fired = 0; /* it is not there */
        return GO;
    case SEND:
        kill(getpid(), argument);
        return GO;
    }
    return action;
}

#define FAILED_HERE(act) ((act) == FAIL && (errno = argument, 1))
#define DONE(act)      \
    if ((act) == AFTER) \
        die();

static uint64_t inode_of(int fd, uint64_t *size) {
    struct stat status;
    if (fstat(fd, &status) < 0)
        return 0;
    if (size)
        *size = status.st_size;
    return status.st_ino;
}

static ssize_t written(int fd, const void *data, size_t length, int64_t offset, int is_positioned) {
    char path[PATH_MAX];
    int ours = armed && path_of(fd, path) ? whose(path) : 0;
    int act = ours == 1 ? gate('W', path) : GO;
    if (FAILED_HERE(act))
        return -1;
    size_t part = act == TORN ? length / 2 : length;
    uint64_t size = 0, inode = ours ? inode_of(fd, &size) : 0;
    if (ours && !is_positioned) {
        offset = syscall(SYS_lseek, fd, 0, SEEK_CUR);
        if (syscall(SYS_fcntl, fd, F_GETFL) & O_APPEND)
            offset = size;
    }
    ssize_t wrote = is_positioned ? syscall(SYS_pwrite64, fd, data, part, offset) : syscall(SYS_write, fd, data, part);
    if (ours && wrote > 0)
        note('W', ours, path, "", inode, offset, 0, data, wrote);
    if (act == TORN)
        die();
    DONE(act);
    return wrote;
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) { return written(fd, data, length, offset, 1); }
ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) { return written(fd, data, length, offset, 1); }
ssize_t write(int fd, const void *data, size_t length) { return written(fd, data, length, 0, 0); }

static ssize_t was_read(int fd, void *data, size_t length, int64_t offset, int is_positioned) {
    char path[PATH_MAX];
    int act = armed && path_of(fd, path) && whose(path) == 1 ? gate('R', path) : GO;
    if (FAILED_HERE(act))
        return -1;
    ssize_t got = is_positioned ? syscall(SYS_pread64, fd, data, length, offset) : syscall(SYS_read, fd, data, length);
    DONE(act);
    return got;
}

ssize_t pread(int fd, void *data, size_t length, off_t offset) { return was_read(fd, data, length, offset, 1); }
ssize_t pread64(int fd, void *data, size_t length, off64_t offset) { return was_read(fd, data, length, offset, 1); }
ssize_t read(int fd, void *data, size_t length) { return was_read(fd, data, length, 0, 0); }

static int synced(int fd, long call) {
    char path[PATH_MAX];
    int ours = armed && path_of(fd, path) ? whose(path) : 0;
    int act = ours == 1 ? gate('S', path) : GO;
    if (FAILED_HERE(act))
        return -1;
    int result = syscall(call, fd);
    if (ours && result == 0)
        note('S', ours, path, "", inode_of(fd, NULL), 0, 0, "", 0);
    DONE(act);
    return result;
}

int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

static int truncated(int fd, int64_t size) {
    char path[PATH_MAX];
    int ours = armed && path_of(fd, path) ? whose(path) : 0;
    int act = ours == 1 ? gate('T', path) : GO;
    if (FAILED_HERE(act))
        return -1;
    int result = syscall(SYS_ftruncate, fd, size);
    if (ours && result == 0)
        note('T', ours, path, "", inode_of(fd, NULL), 0, size, "", 0);
    DONE(act);
    return result;
}

int ftruncate(int fd, off_t size) { return truncated(fd, size); }
int ftruncate64(int fd, off64_t size) { return truncated(fd, size); }

static int opened(int folder, const char *name, int flags, int mode) {
    char path[PATH_MAX];
    int ours = armed && resolved(folder, name, path) ? whose(path) : 0;
    struct stat status;
    int is_new = ours && (flags & O_CREAT) && fstatat(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW) < 0;
    int act = ours == 1 ? gate(flags & O_CREAT ? 'O' : 'R', path) : GO;
    if (FAILED_HERE(act))
        return -1;
    int fd = syscall(SYS_openat, folder, name, flags, mode);
    if (is_new && fd >= 0)
        note('O', ours, path, "", inode_of(fd, NULL), 0, 0, "", 0);
    else if (ours && fd >= 0 && (flags & O_TRUNC))
        note('T', ours, path, "", inode_of(fd, NULL), 0, 0, "", 0);
    DONE(act);
    return fd;
}

#define MODE_OF(flags, mode)               \
    int mode = 0;                          \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list rest;                      \
        va_start(rest, flags);             \
        mode = va_arg(rest, int);          \
        va_end(rest);                      \
    }

int open(const char *name, int flags, ...) { MODE_OF(flags, mode) return opened(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE_OF(flags, mode) return opened(AT_FDCWD, name, flags, mode); }
int openat(int folder, const char *name, int flags, ...) { MODE_OF(flags, mode) return opened(folder, name, flags, mode); }
int openat64(int folder, const char *name, int flags, ...) { MODE_OF(flags, mode) return opened(folder, name, flags, mode); }

static int unlinked(int folder, const char *name, int flags) {
    char path[PATH_MAX];
    int ours = armed && resolved(folder, name, path) ? whose(path) : 0;
    int act = ours == 1 ? gate('U', path) : GO;
    if (FAILED_HERE(act))
        return -1;
    int result = syscall(SYS_unlinkat, folder, name, flags);
    if (ours && result == 0)
        note('U', ours, path, "", 0, 0, 0, "", 0);
    DONE(act);
    return result;
}

int unlink(const char *name) { return unlinked(AT_FDCWD, name, 0); }
int unlinkat(int folder, const char *name, int flags) { return unlinked(folder, name, flags); }
int rmdir(const char *name) { return unlinked(AT_FDCWD, name, AT_REMOVEDIR); }

static int named(char kind, int from_folder, const char *from, int to_folder, const char *to, int flags) {
    char source[PATH_MAX], path[PATH_MAX];
    int ours = armed && resolved(from_folder, from, source) && resolved(to_folder, to, path) ? whose(path) : 0;
    int act = ours == 1 ? gate(kind, path) : GO;
    if (FAILED_HERE(act))
        return -1;
    int result = kind == 'N' ? syscall(SYS_renameat2, from_folder, from, to_folder, to, flags)
                             : syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
    if (ours && result == 0)
        note(kind, ours, source, path, 0, 0, 0, "", 0);
    DONE(act);
    return result;
}

int rename(const char *from, const char *to) { return named('N', AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return named('N', a, from, b, to, 0); }
int link(const char *from, const char *to) { return named('L', AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int a, const char *from, int b, const char *to, int flags) { return named('L', a, from, b, to, flags); }

static int folder_made(int folder, const char *name, mode_t mode) {
    char path[PATH_MAX];
    int ours = armed && resolved(folder, name, path) ? whose(path) : 0;
    int act = ours == 1 ? gate('M', path) : GO;
    if (FAILED_HERE(act))
        return -1;
    int result = syscall(SYS_mkdirat, folder, name, mode);
    if (ours && result == 0)
        note('M', ours, path, "", 0, 0, 0, "", 0);
    DONE(act);
    return result;
}

int mkdir(const char *name, mode_t mode) { return folder_made(AT_FDCWD, name, mode); }
int mkdirat(int folder, const char *name, mode_t mode) { return folder_made(folder, name, mode); }

static int locked(int fd, int command, void *rest) {
    if (armed && (command == F_SETLK || command == F_SETLKW)) {
        char path[PATH_MAX];
        int act = path_of(fd, path) ? gate('K', path) : GO;
        int result = syscall(SYS_fcntl, fd, command, rest);
        DONE(act);
        return result;
    }
    return syscall(SYS_fcntl, fd, command, rest);
}

#define REST_OF(command, rest)        \
    va_list more;                     \
    va_start(more, command);          \
    void *rest = va_arg(more, void *); \
    va_end(more);

int fcntl(int fd, int command, ...) { REST_OF(command, rest) return locked(fd, command, rest); }
int fcntl64(int fd, int command, ...) { REST_OF(command, rest) return locked(fd, command, rest); }
