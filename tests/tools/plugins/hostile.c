/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that does, when it is opened, what its option `act` says: for the tests of "kiln
 * check-plugin". */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kiln/plugin.h"

enum act {
    ACT_NOTHING,
    ACT_CRASH,
    ACT_ABORT,
    ACT_HANG,
    ACT_DEAF,
    ACT_EXIT,
    ACT_QUIT,
    ACT_PRINT,
    ACT_COMPLAIN,
    ACT_FORK,
    ACT_SCRIBBLE,
    ACT_REFUSE,
    ACT_LEAK
};

static const kiln_option options[] = {
    {.key = "act",
     .default_value = "nothing",
     .help = "what it does when it is opened",
     .choices = "nothing|crash|abort|hang|deaf|exit|quit|print|complain|fork|scribble|refuse|leak",
     .type = KILN_OPTION_CHOICE},
};

static int64_t probe(void)
{
    return 1;
}

static void sleep_for_ever(void)
{
    for (;;)
        pause();
}

/* Garbage into whatever is open. */
static void scribble(void)
{
    for (int descriptor = 3; descriptor < 1024; descriptor++)
        if (write(descriptor, "garbage", 7) < 0)
            continue;
}

static void act_out(int64_t act)
{
    char *volatile nowhere = (char *)8;
    switch (act) {
    case ACT_CRASH:
        *nowhere = 1;
        break;
    case ACT_ABORT:
        abort();
    case ACT_DEAF:
        signal(SIGTERM, SIG_IGN);
        sleep_for_ever();
        break;
    case ACT_HANG:
        sleep_for_ever();
        break;
    case ACT_EXIT:
        exit(3);
    case ACT_QUIT:
        _exit(0);
    case ACT_PRINT:
        printf("good morning\n");
        break;
    case ACT_COMPLAIN:
        fprintf(stderr, "good\tevening\n");
        break;
    case ACT_FORK:
        if (fork() == 0)
            sleep_for_ever();
        break;
    case ACT_LEAK:
        nowhere = malloc(1000);
        nowhere[7] = 1;
        break;
    case ACT_SCRIBBLE:
        scribble();
        break;
    default:
        break;
    }
}

static kiln_status open_instance(const kiln_host *host, const kiln_option_value *values,
                                 void **instance)
{
    act_out(values[0].integer);
    if (values[0].integer == ACT_REFUSE)
        return host->set_error(KILN_INVALID, "hostile: <refuses> & says \"why\", \xff");
    *instance = (void *)host;
    return KILN_OK;
}

static void close_instance(void *instance)
{
    (void)instance;
}

static kiln_status query(void *instance, kiln_device *device, const kiln_op_head *descriptor,
                         kiln_answer *answer)
{
    (void)instance, (void)device, (void)descriptor;
    kiln_decline(answer, "it does nothing useful");
    return KILN_OK;
}

static kiln_status plan(void *instance, const kiln_plan_request *request, void **result)
{
    (void)request, (void)result;
    return ((const kiln_host *)instance)->set_error(KILN_UNSUPPORTED, "it does nothing useful");
}

static kiln_status run(void *native, const kiln_run_context *context,
                       const kiln_args_head *arguments)
{
    (void)native, (void)context, (void)arguments;
    return KILN_UNSUPPORTED;
}

static uint64_t outputs(void *native)
{
    (void)native;
    return 0;
}

static const kiln_operator_table table = {.struct_size = sizeof table,
                                          .query = query,
                                          .plan = plan,
                                          .run = run,
                                          .free = free,
                                          .outputs = outputs};

static const void *interface_of(void *instance, const char *name)
{
    (void)instance;
    return strcmp(name, "acme.mischief/1") == 0 ? &table : NULL;
}

static const char *const interfaces[] = {"acme.mischief/1", NULL};

static const kiln_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_minor = KILN_PLUGIN_ABI_MINOR,
    .name = "hostile",
    .version = "1.0 <&>",
    .vendor = "tests",
    .description = "misbehaves on request",
    .interfaces = interfaces,
    .options = options,
    .option_count = 1,
    .probe = probe,
    .open = open_instance,
    .close = close_instance,
    .interface = interface_of,
};

KILN_PLUGIN_ENTRY(hostile)
{
    return host_abi_minor >= 0 ? &plugin : NULL;
}
