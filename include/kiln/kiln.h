/* SPDX-License-Identifier: Apache-2.0 */
/* Kiln's public interface: runtimes, profiles, devices, memory, streams, plans.
 *
 * Vocabulary: a plugin offers operators on devices; a profile (YAML) says which plugins serve which
 * operators; a plan is one operator prepared; running a plan does it.
 *
 * Rules that hold everywhere, so that no function repeats them:
 *   - A function that can fail returns a kiln_status; kiln_last_error() then holds a sentence for
 * the calling thread. Outputs are written only on success.
 *   - Pointers must not be NULL unless the comment says what NULL means.
 *   - Every struct with a struct_size begins zeroed with struct_size = sizeof; zero means absent in
 * every field. Of a struct that asks, bytes beyond what this version knows must be zero, else the
 * call is refused with KILN_UNSUPPORTED; into a struct that answers no more than struct_size bytes
 * are written.
 *   - Sizes, offsets and counts are signed 64-bit; strides are in elements, everything else in
 * bytes.
 *   - Functions may be called from any thread at once, save that a stream is fed by one thread at a
 * time, and that a runtime is closed when no other thread is inside it.
 *   - Text that is returned as `const char *` belongs to the object that it was asked of and lives
 * as long.
 *   - The library never prints, exits, aborts, or touches signals. */
#ifndef KILN_KILN_H
#define KILN_KILN_H

#include <stddef.h>
#include <stdint.h>

#include "kiln/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KILN_API                 __attribute__((visibility("default")))
#define KILN_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define KILN_API
#define KILN_PRINTF(text, first)
#endif

/* Status codes: negative, never reused. Identifier, number, what it means in general. */
#define KILN_STATUSES(X)                                               \
    X(OK, 0, "success")                                                \
    X(INVALID, -1, "an argument is wrong")                             \
    X(UNSUPPORTED, -2, "the request is valid but not offered here")    \
    X(NO_MEMORY, -3, "memory is exhausted")                            \
    X(NOT_FOUND, -4, "what was named does not exist")                  \
    X(IO, -5, "a file could not be read or written")                   \
    X(PARSE, -6, "text or a file is malformed")                        \
    X(PLUGIN, -7, "a plugin cannot be loaded or breaks its contract")  \
    X(PERMISSION, -8, "refused for safety, or by the system")          \
    X(FAULT, -9, "a device failed while it worked")                    \
    X(FORKED, -10, "the object belongs to the parent of this process") \
    X(NOT_READY, -11, "not finished yet")                              \
    X(CANCELLED, -12, "stopped on request")                            \
    X(TIMEOUT, -13, "took longer than allowed")                        \
    X(CAPACITY, -14, "a declared capacity was exceeded")               \
    X(STALE, -15, "the object changed since it was prepared")          \
    X(PEER, -16, "another rank failed")                                \
    X(INTERNAL, -17, "a defect in Kiln")

typedef enum kiln_status {
#define KILN_STATUS_ENUM(id, number, text) KILN_##id = number,
    KILN_STATUSES(KILN_STATUS_ENUM)
#undef KILN_STATUS_ENUM
} kiln_status;

/* "INVALID" and the like; "UNKNOWN" for a number that this version does not have. */
KILN_API const char *kiln_status_name(kiln_status status);

/* The general meaning of a status, as in the table. */
KILN_API const char *kiln_status_text(kiln_status status);

/* The sentence that explains the last failure on this thread: what, where, which value, what to do.
 * "" before any. Valid until the next failure on this thread. */
KILN_API const char *kiln_last_error(void);

/* Of these headers; kiln_version() is the library's. */
#define KILN_VERSION_MAJOR 0
#define KILN_VERSION_MINOR 1
#define KILN_VERSION_PATCH 0

/* "0.1.0". */
KILN_API const char *kiln_version(void);

/* What foreign code the calling thread is inside of, for example "probing plugin
 * /usr/lib/kiln/acme.so"; "" when none. A program's own crash handler may call it (it only reads
 * memory) to name the plugin at fault. */
KILN_API const char *kiln_activity(void);

typedef struct kiln_runtime kiln_runtime;
typedef struct kiln_device kiln_device;
typedef struct kiln_stream kiln_stream;
typedef struct kiln_event kiln_event;
typedef struct kiln_plan kiln_plan;

/* ---- Runtime and profile ---- */

enum { KILN_LOG_ERROR = 1, KILN_LOG_WARNING = 2, KILN_LOG_INFO = 3, KILN_LOG_DEBUG = 4 };

/* Called from any thread, possibly at once. `message` is one line without newline. */
typedef void (*kiln_log_fn)(void *context, int level, const char *message);

/* Runs task(argument, part) for every part in [0, parts), on any threads, and returns when all have
 * finished. */
typedef void (*kiln_parallel_for_fn)(void *context, int64_t parts,
                                     void (*task)(void *argument, int64_t part), void *argument);

/* One configuration value, as text: path "threads.count", value "4". Lists are YAML flow text: "[a,
 * b]". Frozen. */
typedef struct kiln_setting {
    const char *path;
    const char *value;
} kiln_setting;

enum {
    KILN_RUNTIME_ISOLATED = 1 /* read no configuration files and no environment variables */
};

/* Everything is read during kiln_runtime_open and not kept, but for the two functions and their
 * contexts. */
typedef struct kiln_runtime_options {
    uint64_t struct_size;
    uint64_t flags;
    const char *profile; /* a profile's name ("ref") or a file (has a '/' or ends in .yaml); NULL =
                            by precedence */
    const char *profile_text;     /* or a profile's YAML itself; at most one of the two */
    const kiln_setting *settings; /* applied last: strongest */
    uint64_t setting_count;
    kiln_log_fn log; /* NULL = silent */
    void *log_context;
    kiln_parallel_for_fn
        parallel_for; /* the caller's own team: Kiln then starts no compute threads */
    void *parallel_context;
    int64_t parallel_threads; /* size of that team */
} kiln_runtime_options;

/* Opens a runtime: reads the profile, loads its plugins, finds the devices. `options` may be NULL.
 * Precedence of configuration, weakest first: built-in, /etc/kiln/kiln.yaml,
 * ~/.config/kiln/kiln.yaml, the profile (option, KILN_PROFILE, or chosen by its `match`),
 * KILN_<SECTION>_<KEY> variables, `settings`. Runtimes do not see each other. */
KILN_API kiln_status kiln_runtime_open(const kiln_runtime_options *options, kiln_runtime **runtime);

/* Waits for nothing: streams must have been waited for. Every object made from the runtime must
 * have been released. NULL is accepted. */
KILN_API void kiln_runtime_close(kiln_runtime *runtime);

/* Where a configuration value came from and what it is. */
typedef struct kiln_setting_info {
    uint64_t struct_size;
    const char *path;
    const char *value;  /* as YAML flow text */
    const char *origin; /* "built-in", "FILE:LINE:COLUMN", "KILN_THREADS_COUNT", "caller" */
    const char *help;
} kiln_setting_info;

/* Number of values in the effective configuration, and one of them, in the order of the table of
 * keys. */
KILN_API int64_t kiln_setting_count(const kiln_runtime *runtime);
KILN_API kiln_status kiln_setting_at(const kiln_runtime *runtime, int64_t index,
                                     kiln_setting_info *info);

/* The value of one path as text, NULL when it has none. */
KILN_API const char *kiln_setting_get(const kiln_runtime *runtime, const char *path);

/* The JSON schema of profiles, and a reference of the keys as Markdown, made from the same table.
 * Static storage or memory that lives as long as the process. NULL when memory is exhausted. */
KILN_API const char *kiln_profile_schema(void);
KILN_API const char *kiln_profile_reference(void);

typedef struct kiln_plugin_info {
    uint64_t struct_size;
    const char *name;
    const char *version;
    const char *vendor;
    const char *description;
    const char *path;      /* file, or "built in"; "" when not found */
    const char *state;     /* "open", "no hardware", "failed", "shadowed", "not in profile", "not
                              found" */
    const char *reason;    /* why, when it is not open */
    const char *operators; /* comma-separated interface names */
    uint64_t abi_minor;
} kiln_plugin_info;

/* The plugins that were found, open or not, in the order of search, then those that the profile
 * names in vain. */
KILN_API int64_t kiln_plugin_count(const kiln_runtime *runtime);
KILN_API kiln_status kiln_plugin_at(const kiln_runtime *runtime, int64_t index,
                                    kiln_plugin_info *info);

/* ---- Devices and memory ---- */

/* Kinds of memory that a device may offer. */
enum {
    KILN_SPACE_DEVICE =
        0,               /* where the device computes best; for the host device, ordinary memory */
    KILN_SPACE_HOST = 1, /* ordinary host memory */
    KILN_SPACE_PINNED = 2, /* host memory that the device copies fast */
    KILN_SPACE_SHARED = 3  /* visible to the other ranks of a communicator */
};

enum { KILN_MAX_MEMORIES = 8 };

/* One memory or cache of a device. Frozen. */
typedef struct kiln_memory_info {
    char name[16];            /* "L1", "UB", "HBM" */
    int64_t bytes;            /* of one instance */
    int64_t instances;        /* how many the device has */
    int64_t line;             /* granularity in bytes: cache line or access alignment */
    int64_t bytes_per_second; /* 0 = unknown */
} kiln_memory_info;

typedef struct kiln_device_info {
    uint64_t struct_size;
    char name[64];         /* what it is, for people */
    char fingerprint[128]; /* chip, driver, compiler: tuning records are trusted only on an equal
                              one */
    int64_t memory_bytes;
    int64_t compute_units;
    int64_t vector_bytes;          /* width of a vector register */
    int64_t matrix_shape[3];       /* M, N, K of the matrix unit's step; 0 = none */
    int64_t copy_bytes_per_second; /* host to device; 0 = unknown */
    uint64_t spaces;               /* bit 1 << KILN_SPACE_x per space offered */
    uint64_t flags;
    int64_t memory_count;
    kiln_memory_info memories[KILN_MAX_MEMORIES];
} kiln_device_info;

enum {
    KILN_DEVICE_HOST_ADDRESSABLE = 1, /* the host may dereference its memory */
    KILN_DEVICE_MODEL = 2,            /* a software model: its times say nothing about hardware */
    KILN_DEVICE_FORK_SAFE = 4 /* a child of fork may go on using it; others return KILN_FORKED */
};

/* Devices of the runtime. Index 0 is the host. They belong to the runtime. */
KILN_API int64_t kiln_device_count(const kiln_runtime *runtime);
KILN_API kiln_device *kiln_device_at(kiln_runtime *runtime, int64_t index);

/* By name: "host", or "PLUGIN:INDEX" such as "npu:1". */
KILN_API kiln_status kiln_device_find(kiln_runtime *runtime, const char *name,
                                      kiln_device **device);

/* The device that the profile names in devices.default; the host when it names none. */
KILN_API kiln_device *kiln_device_default(kiln_runtime *runtime);

/* As kiln_device_find takes it. */
KILN_API const char *kiln_device_name(const kiln_device *device);
KILN_API kiln_runtime *kiln_device_runtime(const kiln_device *device);

/* What the plugin said of the device when the runtime was opened; the device itself need not be
 * open. */
KILN_API kiln_status kiln_device_get_info(kiln_device *device, kiln_device_info *info);

/* Allocates `bytes` (0 is valid) of a space, aligned for every type and at least to 64 bytes;
 * contents undefined. The caller holds one reference. */
KILN_API kiln_status kiln_buffer_alloc(kiln_device *device, uint32_t space, int64_t bytes,
                                       kiln_buffer **buffer);

/* A buffer over host memory that stays the caller's. `release` (may be NULL) is called with
 * `context` when the last reference is gone, from whichever thread drops it. */
KILN_API kiln_status kiln_buffer_wrap(kiln_runtime *runtime, void *memory, int64_t bytes,
                                      void (*release)(void *context), void *context,
                                      kiln_buffer **buffer);

/* References are counted atomically; work under way on a stream holds its own. NULL is accepted by
 * release. */
KILN_API void kiln_buffer_retain(kiln_buffer *buffer);
KILN_API void kiln_buffer_release(kiln_buffer *buffer);

/* Where the buffer lies, and the bytes that it was made with. */
KILN_API kiln_device *kiln_buffer_device(const kiln_buffer *buffer);
KILN_API int64_t kiln_buffer_bytes(const kiln_buffer *buffer);

/* The host address of the buffer's first byte; NULL when the host cannot address it. */
KILN_API void *kiln_buffer_host(const kiln_buffer *buffer);

/* Copies source to destination, same type and shape (any strides; bytes in the gaps between rows
 * survive), between any two devices. With stream NULL it is finished on return; otherwise it is
 * queued on `stream`, which must belong to one of the two devices, the other being the host or the
 * same device. The two must not overlap. */
KILN_API kiln_status kiln_copy(kiln_stream *stream, kiln_runtime *runtime,
                               const kiln_tensor *destination, const kiln_tensor *source);

/* Sets every element to `value`, rounded once to the type. Types of fewer than 8 bits must be
 * contiguous with rows of whole bytes. Streams as for kiln_copy. */
KILN_API kiln_status kiln_fill(kiln_stream *stream, kiln_runtime *runtime,
                               const kiln_tensor *destination, double value);

/* Converts `count` consecutive elements in host memory, rounding once to nearest even; integers to
 * integers exactly or saturated. `flags`: KILN_SATURATE. Source and destination must not overlap.
 */
KILN_API kiln_status kiln_convert(uint32_t destination_type, void *destination,
                                  uint32_t source_type, const void *source, int64_t count,
                                  int flags);

/* ---- Streams and events ---- */

/* A stream runs what is queued on it in order. Results exist once the stream, or an event recorded
 * after the work, was waited for. On the host a stream is a queue with a worker thread; no stream
 * (NULL) means: on the caller, now. */
KILN_API kiln_status kiln_stream_create(kiln_device *device, kiln_stream **stream);

/* Waits for what is queued, then frees. NULL is accepted. */
KILN_API void kiln_stream_destroy(kiln_stream *stream);

/* Waits until everything queued has finished. A fault of the device is returned by this and by
 * every later wait; what was queued behind it did not run. KILN_CAPACITY is no fault: it says that
 * something queued since the last wait has exceeded a capacity, and all else was done. */
KILN_API kiln_status kiln_stream_wait(kiln_stream *stream);

KILN_API kiln_device *kiln_stream_device(const kiln_stream *stream);

/* A function on a stream. `status` is KILN_OK, or the fault of the stream, whose sentence is then
 * this thread's kiln_last_error(): the function is called in any case, so that what it owns is
 * never lost. */
typedef kiln_status (*kiln_stream_fn)(void *argument, kiln_status status);

/* Queues function(argument, status) behind what is queued. It runs on a thread of the device's
 * choosing, must not wait for streams or events, and its negative status faults the stream, but
 * for KILN_CAPACITY, which the next wait returns. */
KILN_API kiln_status kiln_stream_enqueue(kiln_stream *stream, kiln_stream_fn function,
                                         void *argument);

/* What a stream has counted since it was made. Frozen. */
typedef struct kiln_counter {
    char name[24]; /* "cycles" */
    char unit[16];
    int64_t value;
} kiln_counter;

/* Writes at most `capacity` counters and the true number to *count. Waits for nothing. */
KILN_API kiln_status kiln_stream_counters(kiln_stream *stream, kiln_counter *counters,
                                          int64_t capacity, int64_t *count);

/* An event marks a point in a stream; it may be recorded again. Waiting for an event that was never
 * recorded returns at once. */
KILN_API kiln_status kiln_event_create(kiln_device *device, kiln_event **event);

/* What is queued and names the event stays valid. NULL is accepted. */
KILN_API void kiln_event_destroy(kiln_event *event);

/* Marks the end of what is queued on a stream of the event's device. */
KILN_API kiln_status kiln_event_record(kiln_event *event, kiln_stream *stream);

/* Waits for the last record; a fault of that stream is returned (KILN_CAPACITY is none, and left to
 * kiln_stream_wait). Not for functions on streams. */
KILN_API kiln_status kiln_event_wait(kiln_event *event);

/* KILN_OK when reached, KILN_NOT_READY when not, else the fault. */
KILN_API kiln_status kiln_event_query(kiln_event *event);

/* Makes what is queued on `stream` from now on wait for the event, of this or of any other device.
 */
KILN_API kiln_status kiln_stream_wait_event(kiln_stream *stream, kiln_event *event);

/* A gate is an event that the host completes, once, with a status; a negative one faults the
 * streams that wait, but for KILN_CAPACITY, which their next wait returns. `sentence` (may be NULL)
 * becomes the text of that. Destroy it with
 * kiln_event_destroy after completing it. */
KILN_API kiln_status kiln_gate_create(kiln_device *device, kiln_event **gate);
KILN_API kiln_status kiln_gate_complete(kiln_event *gate, kiln_status status, const char *sentence);

/* Arms a completed gate again, so that work that recurs needs no new one. Every stream that waited
 * for it must have passed it. */
KILN_API kiln_status kiln_gate_reset(kiln_event *gate);

/* ---- Operators and plans ---- */

/* The beginning of every operator's descriptor. A descriptor holds no pointers and no padding: its
 * bytes are the key under which plans are cached, tuned and recorded. It has at most 1,024 bytes;
 * plans are shared for those of at most 768 bytes without the zeros at the end. */
typedef struct kiln_op_head {
    uint32_t struct_size;
    uint32_t flags;
} kiln_op_head;

/* The beginning of every operator's arguments. The operator's header names the slots of `tensors`;
 * a zeroed tensor is absent. The array is read during the call and copied if the work is queued. */
typedef struct kiln_args_head {
    uint32_t struct_size;
    uint32_t tensor_count;
    const kiln_tensor *tensors;
} kiln_args_head;

/* A named integer that tunes a plan. Frozen. */
typedef struct kiln_parameter {
    char name[24];
    int64_t value;
} kiln_parameter;

/* Most tensors that one run takes. */
enum { KILN_MAX_TENSORS = 32 };

enum { KILN_STAGING_PROFILE = 0, KILN_STAGING_ALLOW = 1, KILN_STAGING_DENY = 2 };

typedef struct kiln_plan_options {
    uint64_t struct_size;
    kiln_device *device;              /* where the tensors will live; NULL = the host */
    const char *backend;              /* only this plugin; NULL = by the profile */
    uint32_t staging;                 /* may the core copy host tensors to a device and back? */
    uint32_t flags;                   /* KILN_PLAN_… */
    const kiln_parameter *parameters; /* tuning; NULL = the tuning records' */
    uint64_t parameter_count;
    const void *payload; /* what the operator compiles (IR text); the descriptor holds its hash */
    uint64_t payload_size;
    void *parent; /* object that the plan belongs to (a communicator); such plans are not cached */
} kiln_plan_options;

enum {
    KILN_PLAN_REPRODUCIBLE =
        1 /* only backends whose bits depend on operator, types, reduced length and device alone */
};

/* Prepares an operator: walks the backends in the profile's order until one accepts. May take
 * seconds; plans of equal descriptor and options are shared. `operator_name` is "kiln.gemm/1" or a
 * vendor's own. `options` may be NULL. UNSUPPORTED comes with the reason of every backend. The
 * caller holds one reference. */
KILN_API kiln_status kiln_plan_create(kiln_runtime *runtime, const char *operator_name,
                                      const kiln_op_head *descriptor,
                                      const kiln_plan_options *options, kiln_plan **plan);

/* References are counted atomically; runs under way on a stream hold their own. NULL is accepted by
 * release. */
KILN_API void kiln_plan_retain(kiln_plan *plan);
KILN_API void kiln_plan_release(kiln_plan *plan);

typedef struct kiln_plan_info {
    uint64_t struct_size;
    const char *operator_name;
    const char *backend;
    const char *device;
    const char *kernel;   /* the backend's word for what it will run */
    const char *reason;   /* why this backend, in words */
    int32_t support;      /* kiln_support */
    uint32_t flags;       /* KILN_ANSWER_… */
    uint32_t accumulator; /* kiln_type */
    uint32_t
        fallback; /* 1 when the profile's first choice for the operator declined or is missing */
    int64_t estimated_ns; /* 0 = unknown */
    int64_t workspace_bytes;
    uint32_t staged; /* 1 when the core copies tensors to the backend's device and back */
    uint32_t reserved;
} kiln_plan_info;

/* Text belongs to the plan. */
KILN_API kiln_status kiln_plan_get_info(const kiln_plan *plan, kiln_plan_info *info);

typedef enum kiln_support {
    KILN_SUPPORT_NO = 0,
    KILN_SUPPORT_EMULATED = 1,
    KILN_SUPPORT_NATIVE = 2
} kiln_support;

enum {
    KILN_ANSWER_REPRODUCIBLE =
        1, /* bits depend on operator, types, reduced length and device alone */
    KILN_ANSWER_FLUSHES_DENORMALS = 2 /* denormal inputs or results may be taken as zero */
};

/* What one backend said of a descriptor, in the order in which routing asks. Frozen. */
typedef struct kiln_candidate {
    char backend[32];
    char device[64];
    char kernel[64];
    char reason[256]; /* why not, or a remark */
    int32_t support;
    uint32_t flags;
    uint32_t accumulator; /* kiln_type */
    uint32_t reserved;
    int64_t estimated_ns;
    int64_t workspace_bytes;
    uint32_t chosen; /* 1 for the one that kiln_plan_create would take */
    uint32_t staged;
} kiln_candidate;

/* Asks every backend without preparing anything. Writes at most `capacity` and the true number to
 * *count. */
KILN_API kiln_status kiln_explain(kiln_runtime *runtime, const char *operator_name,
                                  const kiln_op_head *descriptor, const kiln_plan_options *options,
                                  kiln_candidate *candidates, int64_t capacity, int64_t *count);

/* Runs a plan. Wrong types, shapes, strides or devices are refused before anything is touched. With
 * stream NULL on a host plan the work is finished on return; otherwise it is queued, and buffers
 * must live until it has completed (host pointers: the caller's care; buffers: references are
 * held). On a device plan, stream NULL means: queue on a stream of the core's and wait. `stream`
 * must belong to the plan's device, or to the host when the plan is staged. */
KILN_API kiln_status kiln_plan_run(kiln_plan *plan, kiln_stream *stream,
                                   const kiln_args_head *arguments);

/* Runs share `part` of `parts` on the calling thread, for engines with their own team: every part
 * in [0, parts) must be run, at once or in turn, in any order, before the outputs are complete.
 * Host plans without staging only. */
KILN_API kiln_status kiln_plan_run_part(kiln_plan *plan, int64_t part, int64_t parts,
                                        const kiln_args_head *arguments);

/* Does the work that an operator needs once per step for many runs of a plan: attention, for one,
 * turns this step's lengths into the shares of its workers, and every layer's run reads them.
 * Operators that need it say so and name the slots; results are tensors that the caller owns.
 * Allocates and compiles nothing. Streams as for kiln_plan_run; not for staged plans. */
KILN_API kiln_status kiln_plan_schedule(kiln_plan *plan, kiln_stream *stream,
                                        const kiln_args_head *arguments);

/* Plans (through the bounded cache of the runtime) and runs in one call, on the device of `stream`,
 * or of the first tensor with a buffer. */
KILN_API kiln_status kiln_call(kiln_runtime *runtime, const char *operator_name,
                               const kiln_op_head *descriptor, kiln_stream *stream,
                               const kiln_args_head *arguments);

/* ---- Packed operands ---- */

/* The first bytes of every packed blob, whoever made it, so that it can be saved, mapped and
 * refused. Little-endian. Frozen. */
typedef struct kiln_pack_header {
    char magic[8];         /* "KILNPACK" */
    uint32_t version;      /* of this header: 1 */
    uint32_t header_bytes; /* payload begins here */
    char backend[32];      /* who made it and can read it */
    char format[32];       /* the backend's name and version of the layout */
    uint32_t type;         /* kiln_type of the elements */
    uint32_t operand;      /* slot in the operator's arguments */
    int64_t shape[3];      /* logical: batch, rows, columns as the operand was given */
    int64_t bytes;         /* of the whole blob */
    uint64_t payload_hash; /* XXH3-64 of the payload; 0 = not computed */
    uint64_t reserved[2];
} kiln_pack_header;

/* Bytes of the blob for operand slot `operand` of this plan; UNSUPPORTED when the backend packs
 * nothing there. */
KILN_API kiln_status kiln_plan_pack_size(kiln_plan *plan, uint32_t operand, int64_t *bytes);

/* Packs `source` (strided, on the plan's device or the host) into `packed` (layout
 * KILN_LAYOUT_PACKED, type and shape as the source's, over at least that many bytes on the plan's
 * device, none of them the source's). Scales and zero points go into the blob, so that `packed` has
 * none; unpack writes them back into destination's. Making a packed operand fixes the backend:
 * other plans refuse it. Streams as for kiln_plan_run. Unpack is the inverse and exact. */
KILN_API kiln_status kiln_plan_pack(kiln_plan *plan, kiln_stream *stream, uint32_t operand,
                                    const kiln_tensor *source, const kiln_tensor *packed);
KILN_API kiln_status kiln_plan_unpack(kiln_plan *plan, kiln_stream *stream, uint32_t operand,
                                      const kiln_tensor *packed, const kiln_tensor *destination);

/* ---- Observation ---- */

enum {
    KILN_TRACE_PLAN = 1,     /* a plan was prepared (not found in the cache) */
    KILN_TRACE_RUN = 2,      /* a run was executed (host) or queued (device) */
    KILN_TRACE_COPY = 3,     /* kiln_copy */
    KILN_TRACE_STAGE = 4,    /* the core copied a tensor for a staged run */
    KILN_TRACE_FALLBACK = 5, /* routing went past the profile's first choice */
    KILN_TRACE_FAULT = 6
};

typedef struct kiln_trace_event {
    uint64_t struct_size;
    uint32_t kind;
    int32_t status;
    const char *operator_name; /* NULL when none */
    const char *backend;
    const char *device;
    const char *text;
    int64_t begin_ns; /* CLOCK_MONOTONIC */
    int64_t end_ns;
    int64_t bytes;
} kiln_trace_event;

typedef void (*kiln_trace_fn)(void *context, const kiln_trace_event *event);

/* Calls `trace` for what happens from now on, from the threads where it happens; NULL stops. The
 * event is valid during the call. Returns when no call of the former function is under way: so a
 * listener must not call it. */
KILN_API kiln_status kiln_trace_set(kiln_runtime *runtime, kiln_trace_fn trace, void *context);

/* Remembers tuning parameters for a descriptor on a device, in the file that tuning.file names
 * (append-only JSON lines) and in the runtime. Parameters in records are taken only where the
 * device's fingerprint is equal, by plans that are prepared later: those in the cache keep theirs.
 * Of several records for one descriptor, device and backend the last counts. */
KILN_API kiln_status kiln_tuning_store(kiln_runtime *runtime, const char *operator_name,
                                       const kiln_op_head *descriptor, kiln_device *device,
                                       const char *backend, const kiln_parameter *parameters,
                                       int64_t count, int64_t measured_ns);

/* The last record, also where tuning.use is false: writes at most `capacity` parameters and the
 * true number to *count. `measured_ns` may be NULL. NOT_FOUND when there is none. */
KILN_API kiln_status kiln_tuning_lookup(kiln_runtime *runtime, const char *operator_name,
                                        const kiln_op_head *descriptor, kiln_device *device,
                                        const char *backend, kiln_parameter *parameters,
                                        int64_t capacity, int64_t *count, int64_t *measured_ns);

/* Threads that a run may use: the size of the pool, or of the caller's team. */
KILN_API int64_t kiln_thread_count(const kiln_runtime *runtime);

/* Runs task(argument, part) for every part in [0, parts) on the runtime's threads and the caller,
 * and returns when all have finished. Inline when the pool is busy or parts is 1. Tasks must not
 * wait for other tasks or streams. */
KILN_API void kiln_parallel_for(kiln_runtime *runtime, int64_t parts,
                                void (*task)(void *argument, int64_t part), void *argument);

struct kiln_operator_table;
struct kiln_run_context;

/* What a plan runs underneath, for measuring the cost of the frame and for checking a plugin on its
 * own. The pointers belong to the plan. The table is declared in kiln/plugin.h; it is the plugin's
 * own, as long as its struct_size says. */
typedef struct kiln_plan_native {
    uint64_t struct_size;
    const struct kiln_operator_table *table;
    void *plan;
} kiln_plan_native;

KILN_API kiln_status kiln_plan_get_native(const kiln_plan *plan, kiln_plan_native *native);

KILN_STATIC_ASSERT(sizeof(kiln_setting) == 16 && sizeof(kiln_memory_info) == 48 &&
                       sizeof(kiln_counter) == 48 && sizeof(kiln_parameter) == 32 &&
                       sizeof(kiln_candidate) == 456 && sizeof(kiln_pack_header) == 144,
                   "structs that stand in arrays are frozen");

#ifdef __cplusplus
}
#endif
#endif
