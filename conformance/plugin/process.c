/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a check in a process of its own: whatever the plugin does there, the caller gets a report.
 */
#include "conformance/plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "conformance/planning.h"
#include "conformance/plugin/load.h"
#include "conformance/random.h"
#include "conformance/sanitizers.h"

enum {
    DEFAULT_LIMIT_S = 60,
    GRACE_MS = 500,         /* for a process that hangs to say where */
    RESULT_DESCRIPTOR = 200 /* at least: away from those that a plugin might think its own */
};

/* Memory that the process of the check and its parent both see. */
typedef struct last_words {
    char calling[64];   /* function of the plugin that the check itself called */
    char activity[512]; /* kiln_activity() when it ended */
    conformance_planning planning;
} last_words;

/* What comes through the pipe. The token is not known to the plugin. */
typedef struct result {
    uint64_t token;
    conformance_report report;
} result;

typedef struct output {
    int descriptor;
    size_t total;
    char text[4096];
} output;

typedef struct child {
    pid_t process;
    uint64_t token;
    last_words *words;
    int result_descriptor;
    size_t result_bytes;
    unsigned char result_data[sizeof(result) + 1]; /* one more shows that it is too long */
    output printed[2];                             /* standard output, standard error */
    bool timed_out, interrupted, left_process;
    int status; /* waitpid's */
} child;

static void set_verdict(conformance_report *report, conformance_verdict verdict, const char *format,
                        va_list arguments)
{
    vsnprintf(report->text, sizeof report->text, format, arguments);
    report->verdict = verdict;
}

void conformance_fail(conformance_report *report, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (report->verdict != CONFORMANCE_CHECK_FAILED)
        set_verdict(report, CONFORMANCE_CHECK_FAILED, format, arguments);
    va_end(arguments);
}

void conformance_skip(conformance_report *report, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (report->verdict == CONFORMANCE_CHECK_PASSED)
        set_verdict(report, CONFORMANCE_CHECK_NOT_APPLICABLE, format, arguments);
    va_end(arguments);
}

/* ---- In the process of the check ---- */

static last_words *words; /* NULL outside of a check */
static _Thread_local const char *calling;
static _Thread_local bool is_main;

void conformance_calling(const char *function)
{
    calling = function;
    if (is_main && words)
        snprintf(words->calling, sizeof words->calling, "%s", function ? function : "");
}

static void copy_text(char *destination, size_t size, const char *text)
{
    size_t i = 0;
    for (; text[i] && i + 1 < size; i++)
        destination[i] = text[i];
    destination[i] = '\0';
}

/* Only async-signal-safe calls: the plugin may have crashed inside malloc. */
static void keep_last_words(void)
{
    if (!words)
        return;
    if (calling)
        copy_text(words->calling, sizeof words->calling, calling);
    copy_text(words->activity, sizeof words->activity, kiln_activity());
}

static void on_signal(int number)
{
    keep_last_words();
    raise(number); /* SA_RESETHAND: the system's own now */
}

static void catch_signals(void)
{
    static const int numbers[] = {SIGTERM, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    static char alternate_stack[64 * 1024];
    stack_t stack = {.ss_sp = alternate_stack, .ss_size = sizeof alternate_stack};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK | SA_RESETHAND | SA_NODEFER;
    sigaltstack(&stack, NULL);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaction(numbers[i], &action, NULL);
    conformance_on_sanitizer_death(keep_last_words);
}

static void reset_signals(void)
{
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool redirect(int output_descriptor, int error_descriptor)
{
    int null = open("/dev/null", O_RDONLY);
    bool done = null >= 0 && dup2(null, STDIN_FILENO) >= 0 &&
                dup2(output_descriptor, STDOUT_FILENO) >= 0 &&
                dup2(error_descriptor, STDERR_FILENO) >= 0;
    if (null > STDERR_FILENO)
        close(null);
    return done;
}

/* Whatever the caller has open is out of a plugin's reach: a build's job server, say. */
static void close_others(int kept)
{
    if (kept > STDERR_FILENO + 1)
        close_range(STDERR_FILENO + 1, (unsigned)kept - 1, 0);
    close_range((unsigned)kept + 1, ~0u, 0);
}

static void run_here(const conformance_check *check, const conformance_subject *subject,
                     uint64_t token, int descriptor)
{
    result made;
    memset(&made, 0, sizeof made);
    made.token = token;
    is_main = true;
    conformance_planning_keep(&words->planning);
    catch_signals();
    atexit(keep_last_words);
    check->run(subject, &made.report);
    if (conformance_leaks())
        conformance_fail(&made.report, "leaks memory");
    fflush(stdout);
    fflush(stderr);
    ssize_t written = write(descriptor, &made, sizeof made);
    _exit(written == (ssize_t)sizeof made ? 0 : 1);
}

/* ---- In the parent ---- */

static bool make_pipe(int ends[2])
{
    return pipe2(ends, O_CLOEXEC) == 0;
}

static void close_all(const int *descriptors, int count)
{
    for (int i = 0; i < count; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
}

/* Another for each check, also for those that begin at the same time. */
static uint64_t make_token(const last_words *shared)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t state = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 30 ^ (uint64_t)getpid() << 17 ^
                     (uint64_t)(uintptr_t)shared;
    return conformance_random(&state);
}

/* Starts the process; false when the system does not allow it. */
static bool start(child *self, const conformance_check *check, const conformance_subject *subject)
{
    int ends[6] = {-1, -1, -1, -1, -1, -1};
    self->words =
        mmap(NULL, sizeof *self->words, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool ready =
        self->words != MAP_FAILED && make_pipe(ends) && make_pipe(ends + 2) && make_pipe(ends + 4);
    self->token = make_token(self->words);
    /* What is still in the buffers would be written twice. */
    fflush(stdout);
    fflush(stderr);
    pid_t parent = getpid();
    self->process = ready ? fork() : -1;
    if (self->process == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        reset_signals();
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        int descriptor = fcntl(ends[1], F_DUPFD_CLOEXEC, RESULT_DESCRIPTOR);
        if (descriptor < 0 || !redirect(ends[3], ends[5]))
            _exit(1);
        close_others(descriptor);
        words = self->words;
        run_here(check, subject, self->token, descriptor);
    }
    for (int i = 1; i < 6; i += 2)
        if (ends[i] >= 0)
            close(ends[i]);
    if (self->process < 0) {
        int problem = errno;
        for (int i = 0; i < 6; i += 2)
            if (ends[i] >= 0)
                close(ends[i]);
        if (self->words != MAP_FAILED)
            munmap(self->words, sizeof *self->words);
        errno = problem;
        return false;
    }
    setpgid(self->process, self->process);
    self->result_descriptor = ends[0];
    self->printed[0].descriptor = ends[2];
    self->printed[1].descriptor = ends[4];
    for (int i = 0; i < 6; i += 2)
        fcntl(ends[i], F_SETFL, O_NONBLOCK);
    return true;
}

/* Reads what is there: the beginning into `data`, the rest into nothing. Closes at the end. */
static void drain_into(int *descriptor, void *data, size_t size, size_t *total)
{
    char rest[4096];
    for (;;) {
        bool keep = *total < size;
        ssize_t got = read(*descriptor, keep ? (char *)data + *total : rest,
                           keep ? size - *total : sizeof rest);
        if (got == 0) {
            close(*descriptor);
            *descriptor = -1;
        }
        if (got <= 0)
            return;
        *total += (size_t)got;
    }
}

static void drain(child *self, int timeout_ms)
{
    struct pollfd waits[3] = {{self->result_descriptor, POLLIN, 0},
                              {self->printed[0].descriptor, POLLIN, 0},
                              {self->printed[1].descriptor, POLLIN, 0}};
    if (poll(waits, 3, timeout_ms) <= 0)
        return;
    if (waits[0].revents)
        drain_into(&self->result_descriptor, self->result_data, sizeof self->result_data,
                   &self->result_bytes);
    for (int i = 0; i < 2; i++)
        if (waits[1 + i].revents)
            drain_into(&self->printed[i].descriptor, self->printed[i].text,
                       sizeof self->printed[i].text - 1, &self->printed[i].total);
}

/* True once the process has ended. */
static bool reap(child *self)
{
    pid_t ended;
    do
        ended = waitpid(self->process, &self->status, WNOHANG);
    while (ended < 0 && errno == EINTR);
    return ended != 0;
}

/* True when the process ends within the limit, which does not count the time that plans take, or is
 * for one of these alone. The plugin may be slow there, but not for ever. */
static bool wait_for(child *self, int64_t limit_ms, const conformance_subject *subject)
{
    static conformance_planning none;
    bool closed = false;
    int64_t begin_ms = conformance_planning_now_ms();
    while (!reap(self)) {
        int64_t left = conformance_planning_left_ms(subject ? &self->words->planning : &none,
                                                    begin_ms, limit_ms);
        self->interrupted = subject && subject->interrupted && subject->interrupted();
        if (left <= 0 || self->interrupted)
            return false;
        /* With its pipes closed there is nothing to wait for but the end itself. */
        closed = self->result_descriptor < 0 && self->printed[0].descriptor < 0 &&
                 self->printed[1].descriptor < 0;
        drain(self, closed ? 2 : left < 50 ? (int)left : 50);
    }
    return true;
}

static void finish(child *self, int64_t limit_s, const conformance_subject *subject)
{
    if (!wait_for(self, limit_s * 1000, subject)) {
        self->timed_out = !self->interrupted;
        bool interrupted = self->interrupted;
        kill(self->process, SIGTERM); /* it says where it is, if it still can */
        if (!wait_for(self, GRACE_MS, NULL)) {
            kill(self->process, SIGKILL);
            while (waitpid(self->process, &self->status, 0) < 0 && errno == EINTR)
                ;
        }
        self->interrupted = interrupted;
    }
    self->left_process = kill(-self->process, SIGKILL) == 0;
    drain(self, 0);
    drain(self, 0);
    close_all(
        (int[]){self->result_descriptor, self->printed[0].descriptor, self->printed[1].descriptor},
        3);
}

/* ---- From what happened to a report ---- */

static const char *signal_name(int number, char text[24])
{
    static const struct {
        int number;
        const char *name;
    } names[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGILL, "SIGILL"},
                 {SIGFPE, "SIGFPE"},   {SIGABRT, "SIGABRT"}, {SIGTRAP, "SIGTRAP"},
                 {SIGSYS, "SIGSYS"},   {SIGKILL, "SIGKILL"}, {SIGTERM, "SIGTERM"},
                 {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGXCPU, "SIGXCPU"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].number == number)
            return names[i].name;
    snprintf(text, 24, "signal %d", number);
    return text;
}

/* " in query", or " while opening plugin …", or "". */
static void place_text(const last_words *said, char *text, size_t size)
{
    char function[sizeof said->calling], activity[sizeof said->activity];
    memcpy(function, said->calling, sizeof function);
    memcpy(activity, said->activity, sizeof activity);
    function[sizeof function - 1] = activity[sizeof activity - 1] = '\0';
    if (function[0])
        snprintf(text, size, " in %s", function);
    else if (activity[0])
        snprintf(text, size, " while %s", activity);
    else
        text[0] = '\0';
}

/* What was printed, on one line of printable characters. */
static void printed_text(const output *self, char *text, size_t size)
{
    size_t count = self->total < sizeof self->text - 1 ? self->total : sizeof self->text - 1;
    size_t used = 0;
    for (size_t i = 0; i < count && used + 1 < size; i++) {
        unsigned char byte = (unsigned char)self->text[i];
        if (byte == '\n' && i + 1 == count)
            break;
        text[used++] = byte == '\n' ? '|' : byte < 0x20 || byte > 0x7e ? '?' : (char)byte;
    }
    text[used] = '\0';
}

/* The line in which a sanitizer says what it found; NULL when there is none. */
static const char *sanitizer_line(output *self, char line[256])
{
    static const char *const marks[] = {"SUMMARY: ", "ERROR: ", "WARNING: ThreadSanitizer",
                                        "runtime error: "};
    self->text[self->total < sizeof self->text - 1 ? self->total : sizeof self->text - 1] = '\0';
    if (!strstr(self->text, "Sanitizer") && !strstr(self->text, "runtime error: "))
        return NULL;
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        const char *found = strstr(self->text, marks[i]);
        if (!found)
            continue;
        snprintf(line, 256, "%.*s", (int)strcspn(found, "\n"), found);
        return line;
    }
    return NULL;
}

/* The report as the process sent it; false when it sent none, or something else. */
static bool take_result(const child *self, conformance_report *report)
{
    result made;
    if (self->result_bytes != sizeof made)
        return false;
    memcpy(&made, self->result_data, sizeof made);
    bool whole = made.token == self->token && made.report.verdict >= CONFORMANCE_CHECK_PASSED &&
                 made.report.verdict <= CONFORMANCE_CHECK_NOT_APPLICABLE &&
                 memchr(made.report.text, '\0', sizeof made.report.text);
    if (whole)
        *report = made.report;
    return whole;
}

static void judge_end(child *self, int64_t limit_s, conformance_report *report)
{
    char place[640], name[24], line[256];
    const char *sanitizer = sanitizer_line(&self->printed[1], line);
    place_text(self->words, place, sizeof place);
    if (self->interrupted)
        conformance_fail(report, "interrupted");
    else if (self->timed_out)
        conformance_fail(report, "took longer than %lld s%s", (long long)limit_s, place);
    else if (sanitizer)
        conformance_fail(report, "%s%s", sanitizer, place);
    else if (WIFSIGNALED(self->status))
        conformance_fail(report, "crashed with %s%s", signal_name(WTERMSIG(self->status), name),
                         place);
    else if (WIFEXITED(self->status) && (WEXITSTATUS(self->status) || self->result_bytes == 0))
        conformance_fail(report, "ended the process with exit code %d%s", WEXITSTATUS(self->status),
                         place);
    else if (!take_result(self, report))
        conformance_fail(report,
                         "the result of the check did not arrive whole: something wrote to a file "
                         "descriptor that was not its own");
    else if (self->left_process)
        conformance_fail(report, "left a process behind");
}

/* Bytes of a UTF-8 sequence, 0 when it is none. */
static size_t sequence_bytes(const unsigned char *at)
{
    size_t bytes = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    if (at[0] > 0xf4 || (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return bytes;
}

/* Whatever the plugin called itself, reports are UTF-8 without control characters but newlines. */
static void clean_text(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at;) {
        size_t bytes = sequence_bytes(at);
        if (bytes == 0 || (*at < 0x20 && *at != '\n') || *at == 0x7f)
            *at = '?';
        at += bytes ? bytes : 1;
    }
}

/* Plugins never print. */
static void judge_output(const child *self, const conformance_check *check, bool known_to_print,
                         conformance_report *report)
{
    bool silent = self->printed[0].total == 0 && self->printed[1].total == 0;
    bool asked = strcmp(check->name, "abi.silent") == 0;
    /* A sanitizer warns there too; what it finds wrong is judged by itself. */
    if (CONFORMANCE_SANITIZED && self->printed[0].total == 0 &&
        strncmp(self->printed[1].text, "==", 2) == 0)
        return;
    if (silent || (known_to_print && !asked) || (check->level == CONFORMANCE_LEVEL_ABI && !asked))
        return;
    const output *loud = &self->printed[self->printed[0].total == 0];
    char text[512];
    printed_text(loud, text, sizeof text);
    conformance_fail(report, "prints on standard %s: \"%s\"",
                     loud == self->printed ? "output" : "error", text);
}

static int64_t time_limit(const conformance_check *check, const conformance_subject *subject)
{
    enum { CASES_PER_S = 10 };
    int64_t limit_s = check->time_limit_s > 0 ? check->time_limit_s : DEFAULT_LIMIT_S;
    if (subject->time_limit_s)
        return subject->time_limit_s;
    if (check->time_limit_s == CONFORMANCE_LIMIT_BY_CASES)
        limit_s += subject->cases < INT32_MAX ? subject->cases / CASES_PER_S : INT32_MAX;
    return limit_s * (CONFORMANCE_SANITIZED ? 4 : 1);
}

void conformance_run_check(const conformance_check *check, const conformance_subject *subject,
                           conformance_report *report)
{
    child self;
    memset(&self, 0, sizeof self);
    memset(report, 0, sizeof *report);
    int64_t limit_s = time_limit(check, subject);
    if (!start(&self, check, subject)) {
        conformance_fail(report, "no process could be started for the check: %s", strerror(errno));
        return;
    }
    finish(&self, limit_s, subject);
    judge_end(&self, limit_s, report);
    judge_output(&self, check, subject->known_to_print, report);
    clean_text(report->text);
    munmap(self.words, sizeof *self.words);
}
