/* The function that XLA calls for a convolution by oneDNN: the same as Handler._execute in
 * anabranch/xla/onednn/handler.py, without Python and its lock.
 *
 * Python makes the primitives when XLA instantiates a call and enters them here under the number that the call carries
 * (anabranch_onednn_add). A call finds them, points oneDNN's memory objects at its buffers, and runs one after another.
 * The table is written under Python's lock and read by any number of threads: an entry's program is there before its
 * number is, and nothing is ever taken out.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "xla/ffi/api/c_api.h"

#define EXPORT __attribute__((visibility("default")))
enum { INTERFACE = 1, MOST_STEPS = 4, MOST_ARGUMENTS = 6, MOST_BUFFERS = 8, PLACES = 1 << 16 };

typedef struct {
  int64_t number;
  void* descriptor;
  int64_t buffer;
  int64_t offset;
} Argument;

typedef struct {
  void* primitive;
  int64_t count;
  Argument arguments[MOST_ARGUMENTS];
} Step;

typedef struct {
  int64_t count;
  int64_t threads;
  int64_t buffers;
  Step steps[MOST_STEPS];
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
  if (set_threads != NULL) set_threads((int)program->threads);
  for (int64_t i = 0; i < program->count; ++i) {
    const Step* step = &program->steps[i];
    Given given[MOST_ARGUMENTS];
    int64_t made = 0;
    int status = 0;
    for (; made < step->count && status == 0; ++made) {
      const Argument* argument = &step->arguments[made];
      given[made].number = (int)argument->number;
      status = create_memory(&given[made].memory, argument->descriptor, engine,
                             buffers[argument->buffer] + argument->offset);
      if (status != 0) break;
    }
    if (status == 0) status = execute(step->primitive, stream, (int)step->count, given);
    while (made > 0) destroy_memory(given[--made].memory);
    if (status != 0) return failed(frame, "oneDNN could not run it", status);
  }
  return NULL;
}
