/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin itself, and what can be wrong with how it opens. */
#include "planted.h"

#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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

#if defined(PLANTED_DEVICE)
static const char *const interfaces[] = {KILN_DEVICE, KILN_GEMM, NULL};
#else
static const char *const interfaces[] = {KILN_GEMM, NULL};
#endif

static int64_t planted_probe(void)
{
    return 1;
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
}

static kiln_status planted_open(const kiln_host *host, const kiln_option_value *values,
                                void **result)
{
    planted_instance *self = calloc(1, sizeof *self);
    if (!self)
        return host->set_error(KILN_NO_MEMORY, "planted: no memory for an instance");
    if (planted(PRINTS)) {
        printf("planted is open\n");
        fflush(stdout);
    }
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

static const void *planted_interface(void *object, const char *name)
{
    (void)object;
#if defined(PLANTED_DEVICE)
    if (strcmp(name, KILN_DEVICE) == 0)
        return &planted_device_table;
#endif
    return strcmp(name, KILN_GEMM) == 0 ? &planted_gemm_table : NULL;
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

KILN_PLUGIN_ENTRY(planted)
{
    return host_abi_minor >= 0 ? &plugin : NULL;
}

#if defined(PLANT_TWO_SYMBOLS)
KILN_API int planted_helper(void);
KILN_API int planted_helper(void)
{
    return 0;
}
#endif
