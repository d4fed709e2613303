/* The function that XLA calls for a convolution by oneDNN: the same as Handler._execute in
 * anabranch/xla/onednn/handler.py, without Python and its lock.
 *
 * Python makes the primitives when XLA instantiates a call and enters them here under the number that the call carries
 * (anabranch_onednn_add). A call finds them, points oneDNN's memory objects at its buffers, and runs one after another.
 * The table is written under Python's lock and read by any number of threads: an entry's program is there before its
 * number is, and nothing is ever taken out.
 *
 * Steps of one group do not depend on each other. They are taken one after another by the thread that calls and by tasks
 * in XLA's pool, which may come late or never: when none is left the caller waits for those that others have begun, and
 * for nothing else. Steps that nobody has taken are the caller's, so that it never waits for a core to become free.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "xla/ffi/api/c_api.h"

#define EXPORT __attribute__((visibility("default")))
enum { INTERFACE = 2, MOST_ARGUMENTS = 6, MOST_BUFFERS = 8, PLACES = 1 << 16 };

typedef struct {
  int64_t number;
  void* descriptor;
  int64_t buffer;
  int64_t offset;
} Argument;

typedef struct {
  void* primitive;
  int64_t group;
  int64_t count;
  Argument arguments[MOST_ARGUMENTS];
} Step;

typedef struct {
  int64_t count;
  int64_t threads;
  int64_t buffers;
  const Step* steps;
} Program;

/* dnnl_exec_arg_t */
typedef struct {
  int number;
  void* memory;
} Given;

static void *engine, *stream;
static int (*create_memory)(void**, void*, void*, void*);
static int (*destroy_memory)(void*);
static int (*execute)(void*, void*, int, const Given*);
static void (*set_threads)(int);

static struct {
  _Atomic int64_t number;
  const Program* program;
} table[PLACES];
static int64_t entries;

EXPORT int anabranch_onednn_interface(void) { return INTERFACE; }

EXPORT void anabranch_onednn_setup(void* an_engine, void* a_stream, void* create, void* destroy, void* run,
                                   void* threads) {
  engine = an_engine;
  stream = a_stream;
  create_memory = (int (*)(void**, void*, void*, void*))create;
  destroy_memory = (int (*)(void*))destroy;
  execute = (int (*)(void*, void*, int, const Given*))run;
  set_threads = (void (*)(int))threads;
}

/* Enters a program, under Python's lock; nothing but 0 says that there is no place left. Numbers are never 0. */
EXPORT int anabranch_onednn_add(int64_t number, const void* program) {
  if (entries >= PLACES / 2) return 1;
  uint64_t at = (uint64_t)number % PLACES;
  while (atomic_load_explicit(&table[at].number, memory_order_relaxed) != 0) at = (at + 1) % PLACES;
  table[at].program = program;
  atomic_store_explicit(&table[at].number, number, memory_order_release);
  ++entries;
  return 0;
}

static const Program* find(int64_t number) {
  for (uint64_t at = (uint64_t)number % PLACES;; at = (at + 1) % PLACES) {
    int64_t there = atomic_load_explicit(&table[at].number, memory_order_acquire);
    if (there == number) return table[at].program;
    if (there == 0) return NULL;
  }
}

static XLA_FFI_Error* failed(XLA_FFI_CallFrame* frame, const char* what, int status) {
  char text[160];
  snprintf(text, sizeof text, "a convolution by oneDNN: %s (status %d)", what, status);
  XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, text, XLA_FFI_Error_Code_INTERNAL};
  return frame->api->XLA_FFI_Error_Create(&args);
}

static int64_t number_of(const XLA_FFI_CallFrame* frame) {
  for (int64_t i = 0; i < frame->attrs.size; ++i) {
    if (frame->attrs.types[i] == XLA_FFI_AttrType_SCALAR && frame->attrs.names[i]->ptr[0] == 'n')
      return *(const int64_t*)((const XLA_FFI_Scalar*)frame->attrs.attrs[i])->value;
  }
  return 0;
}

static int run_step(const Step* step, int64_t threads, char* const* buffers) {
  Given given[MOST_ARGUMENTS];
  int64_t made = 0;
  int status = 0;
  if (set_threads != NULL) set_threads((int)threads); /* of this thread */
  for (; made < step->count; ++made) {
    const Argument* argument = &step->arguments[made];
    given[made].number = (int)argument->number;
    status = create_memory(&given[made].memory, argument->descriptor, engine,
                           buffers[argument->buffer] + argument->offset);
    if (status != 0) break;
  }
  if (status == 0) status = execute(step->primitive, stream, (int)step->count, given);
  while (made > 0) destroy_memory(given[--made].memory);
  return status;
}

/* A group that several threads share; it lives until the last of its tasks has come. */
typedef struct {
  const Step* steps;
  int64_t count, threads;
  char* buffers[MOST_BUFFERS];
  _Atomic int64_t taken, references;
  _Atomic int status;
  int64_t ended; /* under the lock */
  pthread_mutex_t lock;
  pthread_cond_t all_ended;
} Group;

static void take_steps(Group* group) {
  int64_t ended = 0;
  for (;;) {
    int64_t step = atomic_fetch_add(&group->taken, 1);
    if (step >= group->count) break;
    int status = run_step(&group->steps[step], group->threads, group->buffers);
    if (status != 0) atomic_store(&group->status, status);
    ++ended;
  }
  if (ended == 0) return;
  pthread_mutex_lock(&group->lock);
  group->ended += ended;
  if (group->ended == group->count) pthread_cond_signal(&group->all_ended);
  pthread_mutex_unlock(&group->lock);
}

static void let_go(Group* group) {
  if (atomic_fetch_sub(&group->references, 1) != 1) return;
  pthread_cond_destroy(&group->all_ended);
  pthread_mutex_destroy(&group->lock);
  free(group);
}

static void task(void* group) {
  take_steps(group);
  let_go(group);
}

static void forget(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  XLA_FFI_Error_Destroy_Args args = {XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, NULL, error};
  api->XLA_FFI_Error_Destroy(&args);
}

static int run_group(XLA_FFI_CallFrame* frame, const Program* program, int64_t first, int64_t end,
                     char* const* buffers) {
  const XLA_FFI_Api* api = frame->api;
  int64_t threads = 1;
  XLA_FFI_ThreadPool_NumThreads_Args asked = {XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, NULL, frame->ctx, &threads};
  XLA_FFI_Error* error = api->XLA_FFI_ThreadPool_NumThreads(&asked);
  if (error != NULL) {
    forget(api, error); /* there is no pool */
    threads = 1;
  }
  int64_t tasks = (threads < end - first ? threads : end - first) - 1;
  Group* group = tasks > 0 ? malloc(sizeof *group) : NULL;
  if (group == NULL) {
    int status = 0;
    for (; first < end && status == 0; ++first) status = run_step(&program->steps[first], program->threads, buffers);
    return status;
  }
  *group = (Group){.steps = program->steps + first, .count = end - first, .threads = program->threads};
  for (int64_t i = 0; i < program->buffers; ++i) group->buffers[i] = buffers[i];
  atomic_init(&group->references, tasks + 1);
  pthread_mutex_init(&group->lock, NULL);
  pthread_cond_init(&group->all_ended, NULL);
  for (int64_t i = 0; i < tasks; ++i) {
    XLA_FFI_ThreadPool_Schedule_Args args = {XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE, NULL, frame->ctx, task, group};
    error = api->XLA_FFI_ThreadPool_Schedule(&args);
    if (error != NULL) {
      forget(api, error);
      let_go(group);
    }
  }
  take_steps(group);
  pthread_mutex_lock(&group->lock);
  while (group->ended < group->count) pthread_cond_wait(&group->all_ended, &group->lock);
  pthread_mutex_unlock(&group->lock);
  int status = atomic_load(&group->status);
  let_go(group);
  return status;
}

EXPORT XLA_FFI_Error* anabranch_onednn_execute(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != NULL && frame->extension_start->type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata* metadata = ((XLA_FFI_Metadata_Extension*)frame->extension_start)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    metadata->traits = 0;
    return NULL;
  }
  const Program* program = find(number_of(frame));
  if (program == NULL) return failed(frame, "it was not instantiated", 0);
  int64_t operands = frame->args.size, results = frame->rets.size;
  if (operands + results != program->buffers || program->buffers > MOST_BUFFERS)
    return failed(frame, "another number of buffers than its program has", 0);
  char* buffers[MOST_BUFFERS];
  for (int64_t i = 0; i < operands; ++i) buffers[i] = ((XLA_FFI_Buffer*)frame->args.args[i])->data;
  for (int64_t i = 0; i < results; ++i) buffers[operands + i] = ((XLA_FFI_Buffer*)frame->rets.rets[i])->data;
  for (int64_t first = 0; first < program->count;) {
    int64_t end = first + 1;
    while (end < program->count && program->steps[end].group == program->steps[first].group) ++end;
    int status = end - first == 1 ? run_step(&program->steps[first], program->threads, buffers)
                                  : run_group(frame, program, first, end, buffers);
    if (status != 0) return failed(frame, "oneDNN could not run it", status);
    first = end;
  }
  return NULL;
}
