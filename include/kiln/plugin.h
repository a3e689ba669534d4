/* SPDX-License-Identifier: Apache-2.0 */
/* The whole vendor contract. A plugin is one shared object that includes this header and nothing
 * else of Kiln, links nothing of Kiln, and exports one symbol:
 *
 *     KILN_PLUGIN_ENTRY(acme)
 *     {
 *         return host_abi_minor >= 0 ? &acme_plugin : NULL;
 *     }
 *
 *     cc -std=c11 -fPIC -shared -fvisibility=hidden -o acme.so acme.c
 *
 * The file bears the plugin's name, and KILN_PLUGIN_PATH or plugin_path in the profile its folder.
 *
 * How versions work. The suffix of the symbol is the ABI major; a mismatch fails when the symbol is
 * looked up. Minor versions only append: every table and descriptor begins with its struct_size,
 * and whoever receives one copies it into a zeroed one of the size that it knows, so that a missing
 * tail reads as NULL or 0, which always means absent or not supported. Of a longer table (an offer)
 * the unknown tail is ignored; of a longer descriptor or argument struct (a request) any non-zero
 * byte beyond the known size, like any unknown enum or flag, is refused with KILN_UNSUPPORTED: an
 * old plugin must never half-obey a new request. kiln_receive_table(),
 * kiln_receive_descriptor(), kiln_check_request() and kiln_check_arguments() below do this. A
 * callee writes at most the caller's size. Structs that stand in arrays are frozen. Tables and
 * descriptors may be shorter than they were in minor 0; answers and requests (kiln_answer,
 * kiln_device_info, kiln_plan_request, kiln_copy_request, …) are not.
 *
 * How to behave. No abort, exit, printing, signal or atexit handlers. Errors: a negative status,
 * and a sentence through host->set_error. Calls leave the thread's state (current device, FTZ/DAZ,
 * rounding, signal mask) as found. probe, open and close are called under the loader's lock, one at
 * a time; everything else must be reentrant. A plugin stays loaded until the process ends; close
 * ends its instance's threads. */
#ifndef KILN_PLUGIN_H
#define KILN_PLUGIN_H

#include <stdarg.h>
#include <stdio.h>

#include "kiln/kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_PLUGIN_ABI_MAJOR 1
#define KILN_PLUGIN_ABI_MINOR 0

typedef struct kiln_host kiln_host;

/* ---- Options that a plugin declares, and their values ---- */

typedef enum kiln_option_type {
    KILN_OPTION_INTEGER = 1, /* within [minimum, maximum]; sizes may carry KiB, MiB, GiB */
    KILN_OPTION_NUMBER = 2,
    KILN_OPTION_BOOLEAN = 3,
    KILN_OPTION_STRING = 4,
    KILN_OPTION_CHOICE = 5 /* one of `choices`, separated by '|' */
} kiln_option_type;

/* One key of options.<plugin> in a profile. Frozen; static storage. */
typedef struct kiln_option {
    const char *key;
    const char *default_value; /* as it would stand in a profile */
    const char *help;
    const char *choices;
    double minimum, maximum; /* both 0 = no limit */
    uint32_t type;
    uint32_t reserved;
} kiln_option;

/* A validated value, in the order of the plugin's kiln_option array. Text lives as long as the
 * instance. Frozen. */
typedef struct kiln_option_value {
    const char *text;
    int64_t integer; /* also booleans: 0 or 1; and choices: the index of the choice */
    double number;
} kiln_option_value;

/* ---- The plugin ---- */

/* Static data and the functions that make an instance. Everything it points to is static. */
typedef struct kiln_plugin {
    uint64_t struct_size;
    uint64_t abi_minor; /* KILN_PLUGIN_ABI_MINOR that it was built with */
    const char *name;   /* [a-z][a-z0-9-]*, at most 31 characters */
    const char *version;
    const char *vendor;
    const char *description;
    const char *const *interfaces; /* names such as "kiln.gemm/1", NULL-terminated */
    const kiln_option *options;
    uint64_t option_count;

    /* How many devices there are, or, for a plugin that computes on the host, 1; 0 = the hardware
     * is not here. Touches nothing. Called under the loader's lock. */
    int64_t (*probe)(void);

    /* Makes the instance for one runtime. `host` and `options` live until close. Called under the
     * loader's lock. */
    kiln_status (*open)(const kiln_host *host, const kiln_option_value *options, void **instance);
    void (*close)(void *instance);

    /* The table of an interface, beginning with its struct_size (kiln_operator_table,
     * kiln_device_table, or one that begins with them); NULL = not offered with these options. Must
     * live as long as the instance. */
    const void *(*interface)(void *instance, const char *name);
} kiln_plugin;

/* The entry exchanges tables and does nothing else. A static build renames it, so that preopened
 * plugins do not clash: libtool compiles with -DKILN_STATIC_PLUGIN then. */
typedef const kiln_plugin *(*kiln_plugin_entry_fn)(int64_t host_abi_minor);

#define KILN_PLUGIN_SYMBOL "kiln_plugin_v1"
#ifdef KILN_STATIC_PLUGIN
#define KILN_PLUGIN_ENTRY(name)                                                    \
    KILN_API const kiln_plugin *name##_LTX_kiln_plugin_v1(int64_t host_abi_minor); \
    KILN_API const kiln_plugin *name##_LTX_kiln_plugin_v1(int64_t host_abi_minor)
#else
#define KILN_PLUGIN_ENTRY(name)                                         \
    KILN_API const kiln_plugin *kiln_plugin_v1(int64_t host_abi_minor); \
    KILN_API const kiln_plugin *kiln_plugin_v1(int64_t host_abi_minor)
#endif

/* Makes a plugin known that is linked into the program. `entry` is its entry; the name must be the
 * plugin's. Runtimes opened later find it before those on disk. */
KILN_API kiln_status kiln_plugin_register(const char *name, kiln_plugin_entry_fn entry);

/* ---- Operators ---- */

/* What a backend says of a descriptor. */
typedef struct kiln_answer {
    uint64_t struct_size;
    int32_t support;      /* kiln_support */
    uint32_t flags;       /* KILN_ANSWER_… */
    uint32_t accumulator; /* kiln_type of the sum */
    uint32_t reserved;
    int64_t estimated_ns;        /* without transfers; 0 = unknown */
    int64_t workspace_bytes;     /* bound over all runs that the descriptor allows */
    int64_t workspace_alignment; /* at most 64, which every workspace has; 0 = 64 */
    char kernel[64];
    char reason[256]; /* why not; else a remark or "" */
} kiln_answer;

/* What plan() prepares. Valid during the call. */
typedef struct kiln_plan_request {
    uint64_t struct_size;
    kiln_device *device;
    const kiln_op_head *descriptor; /* canonical; as long as its struct_size */
    const kiln_parameter *parameters;
    uint64_t parameter_count;
    const void *payload; /* what the caller passed for the operator to compile; NULL = none */
    uint64_t payload_size;
    void *parent; /* as in kiln_plan_options */
} kiln_plan_request;

/* One run. Made by the core; valid during the call. */
typedef struct kiln_run_context {
    uint64_t struct_size;
    kiln_stream *stream; /* NULL = on the calling thread, finished on return (host devices only) */
    void *workspace; /* host: an address; device: the device table's memory object; NULL when the
                        bound is 0 */
    int64_t workspace_bytes;
    /* parts = 0: the whole, and host->parallel_for may be used. parts > 0: only share `part`, on
     * this thread. */
    int64_t part;
    int64_t parts;
} kiln_run_context;

enum {
    /* It serves tensors and streams of devices that are not its own, by the functions of the host
     * table (a transport, say). Without it, it is asked only about its own devices and about memory
     * that the host can address. */
    KILN_OPERATOR_ANY_DEVICE = 1
};

/* Every operator's table begins with this; an operator's own functions follow. NULL = not offered.
 */
typedef struct kiln_operator_table {
    uint64_t struct_size;
    uint64_t flags; /* KILN_OPERATOR_… */

    /* Can this backend serve the descriptor on this device? Fast (microseconds); compiles nothing.
     * The device may not be open yet. `answer` comes zeroed with its struct_size. Returns KILN_OK
     * with support NO and a reason for what it declines; an error only for what is wrong. */
    kiln_status (*query)(void *instance, kiln_device *device, const kiln_op_head *descriptor,
                         kiln_answer *answer);

    /* Prepares. May take seconds. Called once per key, outside core locks. KILN_UNSUPPORTED lets
     * routing go on; other errors end it. */
    kiln_status (*plan)(void *instance, const kiln_plan_request *request, void **plan);

    /* Does it. Neither allocates nor synchronises. The core has checked types, shapes, strides and
     * devices for the operators that it knows; a vendor's own operator checks for itself.
     * Concurrent runs of one plan have distinct workspaces. Device-resident lengths and indices are
     * clamped to declared capacities and reported at the next wait. */
    kiln_status (*run)(void *plan, const kiln_run_context *context,
                       const kiln_args_head *arguments);
    void (*free)(void *plan);

    /* Candidate tuning parameters: calls emit(argument, parameters, count) for each; stops on a
     * negative status. */
    kiln_status (*space)(void *instance, kiln_device *device, const kiln_op_head *descriptor,
                         kiln_status (*emit)(void *argument, const kiln_parameter *parameters,
                                             int64_t count),
                         void *argument);

    /* Packed operands: see kiln_plan_pack. pack and unpack follow run's rules. */
    kiln_status (*pack_size)(void *plan, uint32_t operand, int64_t *bytes);
    kiln_status (*pack)(void *plan, const kiln_run_context *context, uint32_t operand,
                        const kiln_tensor *source, const kiln_tensor *packed);
    kiln_status (*unpack)(void *plan, const kiln_run_context *context, uint32_t operand,
                          const kiln_tensor *packed, const kiln_tensor *destination);

    /* Required of operators that the core does not know: which tensor slots a run writes, one bit
     * per slot; all others are read. Staging and the bookkeeping of queued work need it. */
    uint64_t (*outputs)(void *plan);

    /* Work that is done once per step for many runs, from data that only the step knows (lengths):
     * see kiln_plan_schedule. Follows run's rules. */
    kiln_status (*schedule)(void *plan, const kiln_run_context *context,
                            const kiln_args_head *arguments);
} kiln_operator_table;

/* ---- Devices: "kiln.device/1" ---- */

#define KILN_DEVICE "kiln.device/1"

/* A strided copy. Either side is a memory object of this device (memory set) or a host address
 * (memory NULL). Extents and strides are in elements of `element_bytes`; sub-byte types come as
 * bytes. Frozen. */
typedef struct kiln_copy_side {
    void *memory; /* the device's memory object, NULL = host */
    char *host;   /* host address when memory is NULL */
    int64_t byte_offset;
    int64_t strides[KILN_MAX_RANK]; /* in bytes */
} kiln_copy_side;

typedef struct kiln_copy_request {
    uint64_t struct_size;
    int64_t element_bytes;
    int64_t rank; /* 0 to 8; 0 = one element */
    int64_t shape[KILN_MAX_RANK];
    kiln_copy_side destination;
    kiln_copy_side source;
} kiln_copy_request;

/* A strided fill with a pattern of element_bytes. */
typedef struct kiln_fill_request {
    uint64_t struct_size;
    int64_t element_bytes;
    int64_t rank;
    int64_t shape[KILN_MAX_RANK];
    kiln_copy_side destination;
    uint8_t pattern[16];
} kiln_fill_request;

/* What makes a plugin a device. A plugin without one of these is not opened: count, info, open,
 * close, alloc, free, copy, stream_create, stream_destroy, stream_wait, event_create,
 * event_destroy, event_record, event_query, event_wait, stream_wait_event. What needs another is
 * refused with its name. Streams are in order. Every function may be called from any thread;
 * one thread at a time feeds one stream. Objects (void *) are the plugin's own; the core frees each
 * before its device. A fault is sticky: the stream's later waits return it, each time with its
 * sentence through host->set_error; commands queued behind it are skipped, except that events
 * complete (with the fault) and functions are called (with its status, and its sentence set). A
 * stream that waits for an event which completed with a fault takes that fault over.
 * KILN_CAPACITY, of a function or a run, is no fault: what is queued behind it is done, events
 * behind it complete with KILN_OK, and the next stream_wait of a stream without a fault returns it,
 * once, with the sentence of the first. stream_wait and stream_destroy return when all that was
 * queued has been done, skipped or called, also after a fault.
 * An event or gate may be destroyed while commands that name it are queued. */
typedef struct kiln_device_table {
    uint64_t struct_size;

    kiln_status (*count)(void *instance, int64_t *count);
    kiln_status (*info)(void *instance, int64_t index,
                        kiln_device_info *info); /* without opening it */

    /* `handle` is the core's device, for use with the host table. Opened at first use. */
    kiln_status (*open)(void *instance, int64_t index, kiln_device *handle, void **device);
    void (*close)(void *device);

    /* Memory objects. `host` is the address of the first byte where the host may dereference it,
     * else NULL. */
    kiln_status (*alloc)(void *device, uint32_t space, int64_t bytes, int64_t alignment,
                         void **memory, void **host);
    void (*free)(void *device, void *memory);

    kiln_status (*copy)(void *device, void *stream, const kiln_copy_request *request);
    kiln_status (*fill)(void *device, void *stream, const kiln_fill_request *request);

    kiln_status (*stream_create)(void *device, void **stream);
    void (*stream_destroy)(void *device, void *stream);
    kiln_status (*stream_wait)(void *device, void *stream);
    kiln_status (*stream_enqueue)(void *device, void *stream, kiln_stream_fn function,
                                  void *argument);
    kiln_status (*stream_counters)(void *device, void *stream, kiln_counter *counters,
                                   int64_t capacity, int64_t *count);

    /* Events; a gate is one that the host completes. Waiting for one never recorded returns at
     * once. A wait means the record that is the last when it is queued: recording the event again,
     * on whatever stream, neither delays nor hastens it. One may be destroyed while commands that
     * name it are queued. */
    kiln_status (*event_create)(void *device, void **event);
    void (*event_destroy)(void *device, void *event);
    kiln_status (*event_record)(void *device, void *event, void *stream);
    kiln_status (*event_query)(void *device, void *event);
    kiln_status (*event_wait)(void *device, void *event);
    kiln_status (*stream_wait_event)(void *device, void *stream, void *event);
    kiln_status (*gate_create)(void *device, void **event);
    kiln_status (*gate_complete)(void *device, void *event, kiln_status status,
                                 const char *sentence);
    kiln_status (*gate_reset)(void *device, void *event); /* optional */

    /* Places for what comes with the first plugin that needs it; NULL until then.
     * Native objects are borrowed, never destroyed. */
    kiln_status (*import_memory)(void *device, uint64_t kind, const void *native, int64_t bytes,
                                 void **memory);
    kiln_status (*export_memory)(void *device, void *memory, uint64_t kind, void *native,
                                 int64_t native_bytes);
    kiln_status (*import_stream)(void *device, uint64_t kind, const void *native, void **stream);
    kiln_status (*export_stream)(void *device, void *stream, uint64_t kind, void *native,
                                 int64_t native_bytes);
    kiln_status (*import_event)(void *device, uint64_t kind, const void *native, void **event);
    kiln_status (*capture_begin)(void *device, void *stream);
    kiln_status (*capture_end)(void *device, void *stream, void **graph);
    kiln_status (*capture_launch)(void *device, void *stream, void *graph);
    void (*capture_free)(void *device, void *graph);
    kiln_status (*rank_export)(void *device, void *memory, uint8_t handle[256], int64_t *bytes);
    kiln_status (*rank_import)(void *device, const uint8_t *handle, int64_t bytes, void **memory);
    kiln_status (*dmabuf)(void *device, void *memory, int *descriptor, int64_t *offset);
} kiln_device_table;

/* ---- What the core offers to plugins ---- */

/* Functions take the host table itself where they need the runtime. Those that bear a public
 * function's name do what it does. */
struct kiln_host {
    uint64_t struct_size;
    uint64_t abi_minor;
    kiln_runtime *runtime;

    /* The sentence for kiln_last_error() on this thread; returns `status`, so that `return
     * host->set_error(…)` works. */
    kiln_status (*set_error)(kiln_status status, const char *format, ...) KILN_PRINTF(2, 3);

    /* This thread's sentence: that of a function on a stream, say, which has just failed. */
    const char *(*last_error)(void);
    void (*log)(const kiln_host *host, int level, const char *format, ...) KILN_PRINTF(3, 4);

    /* Which of the plugin's own devices it is, open or not; -1 when it is none of `instance`. */
    int64_t (*device_index)(const kiln_device *device, const void *instance);

    /* From the core's handles to the plugin's own objects. device_native gives NULL when the device
     * is not one of `instance`, and before it has been opened; the others take objects of the
     * plugin's own devices only. */
    void *(*device_native)(const kiln_device *device, const void *instance);
    void *(*stream_native)(const kiln_stream *stream);
    void *(*event_native)(const kiln_event *event);
    void *(*buffer_native)(const kiln_buffer *buffer); /* the memory object */
    void *(*buffer_host)(const kiln_buffer *buffer);   /* the host address or NULL */
    kiln_device *(*buffer_device)(const kiln_buffer *buffer);
    kiln_device *(*stream_device)(const kiln_stream *stream);
    int64_t (*device_is_host)(const kiln_device *device);

    /* Threads. parallel_for runs inline when called from inside a task. */
    int64_t (*thread_count)(const kiln_host *host);
    void (*parallel_for)(const kiln_host *host, int64_t parts,
                         void (*task)(void *argument, int64_t part), void *argument);

    /* Other devices and operators, as the public functions of the same names. plan() must not ask
     * plan_create for the very descriptor and options that it is preparing: it would wait for
     * itself. */
    kiln_status (*device_find)(kiln_runtime *runtime, const char *name, kiln_device **device);
    kiln_status (*device_info)(kiln_device *device, kiln_device_info *info);
    kiln_status (*buffer_alloc)(kiln_device *device, uint32_t space, int64_t bytes,
                                kiln_buffer **buffer);
    void (*buffer_retain)(kiln_buffer *buffer);
    void (*buffer_release)(kiln_buffer *buffer);
    int64_t (*buffer_bytes)(const kiln_buffer *buffer);
    kiln_status (*copy)(kiln_stream *stream, kiln_runtime *runtime, const kiln_tensor *destination,
                        const kiln_tensor *source);
    kiln_status (*stream_create)(kiln_device *device, kiln_stream **stream);
    void (*stream_destroy)(kiln_stream *stream);
    kiln_status (*stream_wait)(kiln_stream *stream);
    kiln_status (*stream_enqueue)(kiln_stream *stream, kiln_stream_fn function, void *argument);
    kiln_status (*event_create)(kiln_device *device, kiln_event **event);
    void (*event_destroy)(kiln_event *event);
    kiln_status (*event_record)(kiln_event *event, kiln_stream *stream);
    kiln_status (*event_wait)(kiln_event *event);
    kiln_status (*event_query)(kiln_event *event);
    kiln_status (*stream_wait_event)(kiln_stream *stream, kiln_event *event);
    kiln_status (*gate_create)(kiln_device *device, kiln_event **gate);
    kiln_status (*gate_complete)(kiln_event *gate, kiln_status status, const char *sentence);
    kiln_status (*gate_reset)(kiln_event *gate);
    kiln_status (*plan_create)(kiln_runtime *runtime, const char *operator_name,
                               const kiln_op_head *descriptor, const kiln_plan_options *options,
                               kiln_plan **plan);
    void (*plan_release)(kiln_plan *plan);
    kiln_status (*plan_run)(kiln_plan *plan, kiln_stream *stream, const kiln_args_head *arguments);
};

/* ---- Helpers for plugins ---- */

/* Copies a table into a zeroed one of `known` bytes and sets its struct_size to that. KILN_INVALID
 * when it is smaller than its own size field. */
static inline kiln_status kiln_receive_table(void *destination, size_t known, const void *source)
{
    uint64_t size, own = known;
    memcpy(&size, source, sizeof size);
    if (size < sizeof size)
        return KILN_INVALID;
    memset(destination, 0, known);
    memcpy(destination, source, size < known ? (size_t)size : known);
    memcpy(destination, &own, sizeof own);
    return KILN_OK;
}

/* Copies a descriptor into a zeroed one of `known` bytes and sets its struct_size to that.
 * KILN_INVALID when it is smaller than its head, KILN_UNSUPPORTED when it carries something
 * non-zero beyond `known`. */
static inline kiln_status kiln_receive_descriptor(void *destination, size_t known,
                                                  const kiln_op_head *source)
{
    size_t size = source->struct_size;
    const unsigned char *bytes = (const unsigned char *)source;
    if (size < sizeof *source)
        return KILN_INVALID;
    for (size_t i = known; i < size; i++)
        if (bytes[i])
            return KILN_UNSUPPORTED;
    memset(destination, 0, known);
    memcpy(destination, source, size < known ? size : known);
    ((kiln_op_head *)destination)->struct_size = (uint32_t)known;
    return KILN_OK;
}

/* For a request of at least `known` bytes that begins with a struct_size of 64 bits, such as
 * kiln_plan_request and kiln_copy_request: KILN_UNSUPPORTED when it carries something non-zero
 * beyond them, KILN_INVALID when it is shorter. */
static inline kiln_status kiln_check_request(const void *request, size_t known)
{
    uint64_t size;
    const unsigned char *bytes = (const unsigned char *)request;
    memcpy(&size, bytes, sizeof size);
    for (uint64_t i = known; i < size; i++)
        if (bytes[i])
            return KILN_UNSUPPORTED;
    return size < known ? KILN_INVALID : KILN_OK;
}

/* The same for the arguments of a run. The core looks at those of the operators that it knows, but
 * a later core knows more of them than the plugin does. */
static inline kiln_status kiln_check_arguments(const kiln_args_head *arguments, size_t known)
{
    const unsigned char *bytes = (const unsigned char *)arguments;
    for (size_t i = known; i < arguments->struct_size; i++)
        if (bytes[i])
            return KILN_UNSUPPORTED;
    return arguments->struct_size < known ? KILN_INVALID : KILN_OK;
}

/* For query: support NO, with the reason. Returns false, so that `return kiln_decline(…)` reads
 * well in a check. */
static inline bool kiln_decline(kiln_answer *answer, const char *format, ...) KILN_PRINTF(2, 3);
static inline bool kiln_decline(kiln_answer *answer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    answer->support = KILN_SUPPORT_NO;
    vsnprintf(answer->reason, sizeof answer->reason, format, arguments);
    va_end(arguments);
    return false;
}

/* Host address of a tensor's first element; NULL when the host cannot address it. */
static inline char *kiln_tensor_address(const kiln_host *host, const kiln_tensor *tensor)
{
    char *base = (char *)(tensor->buffer ? host->buffer_host(tensor->buffer) : tensor->data);
    return base ? base + tensor->byte_offset : NULL;
}

KILN_STATIC_ASSERT(sizeof(kiln_option) == 56 && sizeof(kiln_option_value) == 24 &&
                       sizeof(kiln_copy_side) == 88,
                   "structs that stand in arrays are frozen");

#ifdef __cplusplus
}
#endif
#endif
