/* SPDX-License-Identifier: Apache-2.0 */
/* The program `kiln`: finds the subcommand and calls it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "support/yaml.h"
#include "tools/kiln/command.h"

typedef struct subcommand {
    const char *name;
    int (*entry)(int argc, char **argv);
    const char *summary;
} subcommand;

static const subcommand subcommands[] = {
    {"info", kiln_info_main, "what there is: profile, plugins, devices, configuration"},
    {"explain", kiln_explain_main, "which backend would serve an operator, and why"},
    {"run", kiln_run_main, "run a job, or one GEMM, on tensors from files"},
    {"bench", kiln_bench_main, "measure speed beside ceilings and peers"},
    {"check-plugin", kiln_check_plugin_main, "check that a plugin keeps its contract"},
};

enum { SUBCOMMAND_COUNT = sizeof subcommands / sizeof subcommands[0] };

static void print_help(FILE *out)
{
    fputs("usage: kiln COMMAND [OPTION…] [WORD…]\n\nCommands:\n", out);
    for (size_t i = 0; i < SUBCOMMAND_COUNT; i++)
        fprintf(out, "  %-12s %s\n", subcommands[i].name, subcommands[i].summary);
    fputs("\nOptions:\n"
          "  -h, --help     print this text; 'kiln COMMAND --help' prints a command's\n"
          "  --version      print the version\n"
          "\nExit codes: 0 done, 1 failed, 2 wrong usage; 128 + number when a signal stopped it.\n",
          out);
}

static int unknown_command(const char *word)
{
    const char *names[SUBCOMMAND_COUNT];
    for (size_t i = 0; i < SUBCOMMAND_COUNT; i++)
        names[i] = subcommands[i].name;
    const char *near = kiln_yaml_nearest(word, names, SUBCOMMAND_COUNT);
    fprintf(stderr, "kiln: unknown %s '%s'%s%s%s\nTry 'kiln --help'.\n",
            word[0] == '-' ? "option" : "command", word, near ? " (did you mean '" : "",
            near ? near : "", near ? "'?)" : "");
    return TOOL_USAGE;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return TOOL_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        print_help(stdout);
        return TOOL_OK;
    }
    if (strcmp(word, "--version") == 0) {
        printf("kiln %s\n", kiln_version());
        return TOOL_OK;
    }
    for (size_t i = 0; i < SUBCOMMAND_COUNT; i++)
        if (strcmp(word, subcommands[i].name) == 0)
            return subcommands[i].entry(argc - 1, argv + 1);
    return unknown_command(word);
}

/* Descriptors 0 to 2 that came closed would be given to the next files that are opened, and
 * messages would go into those. Opened the wrong way round, they still fail as closed ones do. */
static void occupy_descriptors(void)
{
    for (int descriptor = 0; descriptor <= 2; descriptor++)
        if (fcntl(descriptor, F_GETFD) < 0)
            open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
    occupy_descriptors();
    tool_catch_crashes();
    /* A reader that went away, or a limit on the size of files, is an error of that write, not the
     * end of the program between two renames. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    int code = dispatch(argc, argv);
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (errno != EPIPE)
            fprintf(stderr, "kiln: cannot write to standard output: %s\n", strerror(errno));
        return code == TOOL_OK ? TOOL_FAILED : code;
    }
    return code;
}
