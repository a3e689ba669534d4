/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin itself, and what can be wrong with how it opens. */
#include "planted.h"

#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

planted_instance *planted_instances[PLANTED_INSTANCES];

static const kiln_option options[] = {
    {.key = "rows_per_part",
     .default_value = planted(OPTION_OUT_OF_RANGE) ? "0" : "8",
     .help = "rows of a result that one thread takes at a time",
     .minimum = 1,
     .maximum = 4096,
     .type = KILN_OPTION_INTEGER},
};

/* Only a defect needs one. */
#define OWN_OPERATOR "planted.product/1"

static const char *const interfaces[] = {
    KILN_GEMM,
#if defined(PLANTED_DEVICE)
    KILN_DEVICE,
#endif
    planted(UNKNOWN_INTERFACE) ? "kiln.nothing/1"
    : planted(NO_OUTPUTS)      ? OWN_OPERATOR
                               : NULL,
    NULL,
};

static int64_t planted_probe(void)
{
    static int64_t calls;
    if (planted(NO_HARDWARE))
        return 0;
    return planted(PROBE_COUNTS_CALLS) ? ++calls : 1;
}

/* ---- Things that must not be left behind ---- */

static void on_signal(int number)
{
    (void)number;
}

static void on_exit_of_all(void)
{
}

static void *sleep_for_ever(void *argument)
{
    for (;;)
        pause();
    return argument;
}

static void leave_behind(void)
{
    if (planted(LEAVES_THREAD)) {
        pthread_t thread;
        pthread_create(&thread, NULL, sleep_for_ever, NULL);
        pthread_detach(thread);
    }
    if (planted(LEAVES_FILE) && open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
        return;
    if (planted(LEAVES_HANDLER)) {
        static int opened;
        signal(SIGRTMIN + opened++ % 16, on_signal);
    }
    if (planted(LEAVES_EXIT))
        atexit(on_exit_of_all);
    if (planted(LEAVES_FILE_MASK))
        umask(077);
}

/* Runs when the process ends, long after close. */
__attribute__((destructor)) static void end_of_process(void)
{
    if (planted(USES_CLOSED_INSTANCE))
        planted_instances[0]->rows_per_part = 0;
}

/* ---- Opening ---- */

/* The child of one that has opened it before. */
static bool is_forked(void)
{
    static pid_t first;
    first = first ? first : getpid();
    return first != getpid();
}

static kiln_status planted_open(const kiln_host *host, const kiln_option_value *values,
                                void **result)
{
    if (planted(REFUSES_NEWER_HOST) && host->struct_size != sizeof *host)
        return host->set_error(KILN_UNSUPPORTED, "planted: the host table is of another version");
    if (planted(ONE_PROCESS_ONLY) && is_forked())
        return host->set_error(KILN_FORKED, "planted: it was opened before the fork");
    if (planted(REFUSES_MAXIMUM) && values[0].integer == (int64_t)options[0].maximum)
        return KILN_INVALID;
    planted_instance *self = calloc(1, sizeof *self);
    if (!self)
        return host->set_error(KILN_NO_MEMORY, "planted: no memory for an instance");
    if (planted(PRINTS)) {
        printf("planted is open\n");
        fflush(stdout);
    }
    if (planted(CALLS_LIBRARY))
        (void)kiln_last_error();
    if (planted(CHANGES_ROUNDING))
        fesetround(FE_DOWNWARD);
    leave_behind();
    self->host = host;
    for (int i = 0; planted(SHARED_OPTIONS) && i < PLANTED_INSTANCES; i++)
        if (planted_instances[i])
            planted_instances[i]->host = host;
    self->rows_per_part = values[0].integer;
    pthread_mutex_init(&self->mutex, NULL);
    for (int i = 0; i < PLANTED_INSTANCES; i++)
        if (!planted_instances[i]) {
            planted_instances[i] = self;
            break;
        }
    *result = self;
    return KILN_OK;
}

static void planted_close(void *object)
{
    planted_instance *self = object;
    pthread_mutex_destroy(&self->mutex);
    for (int i = 0; i < PLANTED_INSTANCES; i++)
        if (planted_instances[i] == self)
            planted_instances[i] = NULL;
    if (!planted(LEAKS_INSTANCE))
        free(self);
}

/* The table, at another place every other time. */
static const kiln_operator_table *moving_table(void)
{
    static kiln_operator_table copies[2];
    static _Atomic int calls;
    return memcpy(&copies[atomic_fetch_add(&calls, 1) % 2], &planted_gemm_table, sizeof copies[0]);
}

static const void *planted_interface(void *object, const char *name)
{
    (void)object;
#if defined(PLANTED_DEVICE)
    if (strcmp(name, KILN_DEVICE) == 0)
        return &planted_device_table;
#endif
    if (planted(NO_OUTPUTS) && strcmp(name, OWN_OPERATOR) == 0)
        return &planted_gemm_table;
    if (planted(LATER_MAJORS_TOO) ? strncmp(name, KILN_GEMM, strlen(KILN_GEMM)) != 0
                                  : strcmp(name, KILN_GEMM) != 0)
        return NULL;
    return planted(MOVING_TABLE) ? moving_table() : &planted_gemm_table;
}

static const kiln_plugin plugin = {
    .struct_size = planted(STRUCT_SIZE) ? 4 : sizeof plugin,
    .abi_minor = KILN_PLUGIN_ABI_MINOR,
    .name = planted(OTHER_NAME) ? "implanted" : "planted",
    .version = "1",
    .vendor = "Kiln's tests",
    .description = "right, unless a defect is planted",
    .interfaces = interfaces,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .probe = planted_probe,
    .open = planted_open,
    .close = planted(NO_CLOSE) ? NULL : planted_close,
    .interface = planted_interface,
};

static const kiln_plugin *plugin_on_heap(void)
{
    static kiln_plugin *copy;
    if (!copy && (copy = malloc(sizeof *copy)))
        *copy = plugin;
    return copy;
}

KILN_PLUGIN_ENTRY(planted)
{
    if (planted(REFUSES_NEWER_LIBRARY) && host_abi_minor > KILN_PLUGIN_ABI_MINOR)
        return NULL;
    return planted(TABLE_ON_HEAP) ? plugin_on_heap() : host_abi_minor >= 0 ? &plugin : NULL;
}

#if defined(PLANT_TWO_SYMBOLS)
KILN_API int planted_helper(void);
KILN_API int planted_helper(void)
{
    return 0;
}
#endif
