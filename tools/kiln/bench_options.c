/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the options of `kiln bench`. */
#include "tools/kiln/bench_options.h"

#include <string.h>

#include "bench/peer.h"

enum {
    OPTION_BACKEND = TOOL_OPTION_OWN,
    OPTION_DEVICE,
    OPTION_LIST,
    OPTION_REPLAY,
    OPTION_TOP,
    OPTION_PACKED,
    OPTION_THREADS,
    OPTION_SLICE,
    OPTION_ROUNDS,
    OPTION_BUDGET,
    OPTION_ATTEMPTS,
    OPTION_SEED,
    OPTION_ALLOW_VOID,
    OPTION_PEER,
    OPTION_NO_PEERS,
    OPTION_PEER_CORE,
    OPTION_PEER_PATH,
    OPTION_PEER_SERVER,
    OPTION_CSV
};

static const struct option options[] = {
    TOOL_COMMON_OPTIONS,
    {"backend", required_argument, NULL, OPTION_BACKEND},
    {"device", required_argument, NULL, OPTION_DEVICE},
    {"list", required_argument, NULL, OPTION_LIST},
    {"replay", required_argument, NULL, OPTION_REPLAY},
    {"top", required_argument, NULL, OPTION_TOP},
    {"packed", no_argument, NULL, OPTION_PACKED},
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"slice", required_argument, NULL, OPTION_SLICE},
    {"rounds", required_argument, NULL, OPTION_ROUNDS},
    {"budget", required_argument, NULL, OPTION_BUDGET},
    {"attempts", required_argument, NULL, OPTION_ATTEMPTS},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"allow-void", no_argument, NULL, OPTION_ALLOW_VOID},
    {"peer", required_argument, NULL, OPTION_PEER},
    {"no-peers", no_argument, NULL, OPTION_NO_PEERS},
    {"peer-core", required_argument, NULL, OPTION_PEER_CORE},
    {"peer-path", required_argument, NULL, OPTION_PEER_PATH},
    {BENCH_PEER_SERVER_OPTION, required_argument, NULL, OPTION_PEER_SERVER},
    {"csv", no_argument, NULL, OPTION_CSV},
    {NULL, 0, NULL, 0},
};

const char bench_help[] =
    "usage: kiln bench gemm [OPTION…] m=M n=N k=K type=TYPE [WORD…]\n"
    "       kiln bench gemm [OPTION…] --list small|model [WORD…]\n"
    "       kiln bench --replay FILE [OPTION…]\n"
    "       kiln bench overhead [OPTION…]\n"
    "\n"
    "gemm measures GEMMs in short slices that alternate with the machine's ceilings and with\n"
    "other libraries. A run whose checks do not hold is void. overhead measures what Kiln adds\n"
    "to a backend's own function. Exit code 1 when a run is void or beyond a limit.\n"
    "\n"
    "--replay measures the GEMMs of an application by its own record of calls, which it\n"
    "writes where KILN_RECORD names a file: each with its sizes, types, transposes and\n"
    "epilogues, weighed by how often it was called. At the end stand each shape's share of\n"
    "the time, and the total of calls times median, per backend and per peer.\n"
    "\n"
    "Words: a word that comes again begins the next case; m, n, k, batch and type take lists.\n";

const char bench_own_help[] =
    "  --backend NAME       measure this backend; may be repeated; \"all\" = all that can\n"
    "  --device NAME        where the tensors live: host, npu:0, …\n"
    "  --list small|model   cases of a list; words change its entries\n"
    "  --replay FILE        the GEMMs of a record of calls\n"
    "  --top N              of a replay, the N shapes with the most operations\n"
    "  --packed             pack B beforehand; peers may prepare theirs too\n"
    "  --threads N          threads of Kiln, ceilings and peers (overhead: 2)\n"
    "  --slice MS           length of a slice (20)\n"
    "  --rounds N           rounds per case (25)\n"
    "  --budget S           seconds per case after which no new round begins (20)\n"
    "  --attempts N         measure a void case anew, up to N times in all (3)\n"
    "  --seed N             of inputs and orders\n"
    "  --allow-void         exit code 0 even when a case is void\n"
    "  --peer NAME          compare with this peer; may be repeated; it must be there\n"
    "  --no-peers           compare with none (default: with all that are found)\n"
    "  --peer-core NAME     only these kernels of the peer, as its own variable names them\n"
    "  --peer-path FILE     the peer's library\n"
    "  --csv                print comma-separated values\n";

static bool add_name(bench_options *self, const char *name, const char **names, int *count)
{
    if (*count == BENCH_MAXIMUM_NAMES) {
        tool_usage(&self->common, "--%s: at most %d", name, BENCH_MAXIMUM_NAMES);
        return false;
    }
    names[(*count)++] = optarg;
    return true;
}

static bool take_switch(bench_options *self, int option)
{
    bool *place = option == OPTION_PACKED       ? &self->packed
                  : option == OPTION_ALLOW_VOID ? &self->allow_void
                  : option == OPTION_NO_PEERS   ? &self->no_peers
                  : option == OPTION_CSV        ? &self->csv
                                                : &self->help;
    *place = true;
    return true;
}

static bool take_text(bench_options *self, int option)
{
    const char **place = option == OPTION_DEVICE      ? &self->device
                         : option == OPTION_LIST      ? &self->list
                         : option == OPTION_REPLAY    ? &self->replay
                         : option == OPTION_PEER_CORE ? &self->peer_core
                         : option == OPTION_PEER_PATH ? &self->peer_path
                                                      : &self->peer_server;
    *place = optarg;
    return true;
}

static bool take_option(bench_options *self, int option)
{
    int64_t threads;
    switch (option) {
    case OPTION_BACKEND:
        return add_name(self, "backend", self->backends, &self->backend_count);
    case OPTION_PEER:
        return add_name(self, "peer", self->peers, &self->peer_count);
    case OPTION_THREADS:
        self->threads = optarg;
        return tool_take_integer(&self->common, "threads", 1, 4096, &threads);
    case OPTION_SLICE:
        return tool_take_integer(&self->common, "slice", 1, 10000, &self->slice_ms);
    case OPTION_ROUNDS:
        return tool_take_integer(&self->common, "rounds", 1, 100000, &self->rounds);
    case OPTION_BUDGET:
        return tool_take_integer(&self->common, "budget", 1, 1000000, &self->budget_s);
    case OPTION_ATTEMPTS:
        return tool_take_integer(&self->common, "attempts", 1, 1000, &self->attempts);
    case OPTION_SEED:
        return tool_take_integer(&self->common, "seed", 0, INT64_MAX, &self->seed);
    case OPTION_TOP:
        return tool_take_integer(&self->common, "top", 1, 1000000, &self->top);
    case OPTION_DEVICE:
    case OPTION_LIST:
    case OPTION_REPLAY:
    case OPTION_PEER_CORE:
    case OPTION_PEER_PATH:
    case OPTION_PEER_SERVER:
        return take_text(self, option);
    default:
        return take_switch(self, option);
    }
}

static bool refuse(const bench_options *self, const char *sentence)
{
    tool_usage(&self->common, "%s", sentence);
    return false;
}

bool bench_options_read(bench_options *self, int argc, char **argv)
{
    int option;
    while ((option = tool_next_option(&self->common, argc, argv, options)) != -1)
        if (option == '?' || !take_option(self, option))
            return false;
    if (self->csv && self->common.json)
        return refuse(self, "--csv and --json exclude each other");
    if (self->replay && self->list)
        return refuse(self, "--replay and --list exclude each other");
    if (self->top && !self->replay)
        return refuse(self, "--top is for a --replay");
    return true;
}

void bench_options_set_threads(bench_options *self, const char *otherwise)
{
    tool_common *common = &self->common;
    for (uint64_t i = 0; i < common->setting_count; i++)
        if (strcmp(common->settings[i].path, "threads.count") == 0)
            otherwise = NULL;
    const char *threads = self->threads ? self->threads : otherwise;
    if (!threads)
        return;
    common->settings =
        tool_grow(common->settings, common->setting_count + 1, sizeof *common->settings);
    common->settings[common->setting_count++] = (kiln_setting){"threads.count", threads};
}
