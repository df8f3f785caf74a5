#include "fake-node-api.h"

#include <stdatomic.h>
#include <string.h>

#include "check.h"

enum { MAX_PROPERTIES = 4, MAX_TEXT = 200, MAX_FUNCTIONS = 16, MAX_ARGUMENTS = 8 };

struct property {
  const char *name;
  napi_value value;
};

struct napi_value__ {
  napi_valuetype type;
  double number;
  char text[MAX_TEXT];
  struct property properties[MAX_PROPERTIES];
  /* The bytes of an ArrayBuffer, or of the typed array on it. */
  uint8_t *bytes;
  size_t length;
  bool is_typed;
  void *wrapped;
  napi_finalize finalize;
  int *calls;
  napi_value next;
};

struct napi_ref__ {
  napi_value value;
};

struct napi_callback_info__ {
  size_t count;
  const napi_value *arguments;
  void *data;
};

struct napi_threadsafe_function__ {
  atomic_bool has_rung;
  void *context;
  napi_finalize finalize;
  void *finalize_data;
  napi_threadsafe_function_call_js call;
};

/* The state of the only environment. */
static struct {
  napi_value values;
  napi_value exception;
  int references;
  struct napi_threadsafe_function__ *wake_up;
  napi_cleanup_hook hook;
  void *hook_data;
  napi_property_descriptor functions[MAX_FUNCTIONS];
  size_t function_count;
  size_t argument_count;
  napi_value arguments[MAX_ARGUMENTS];
} now;

/* The calls that must fail. */
static struct {
  int countdown;
  const char *name;
  const char *failed;
} fault;

static napi_env const the_env = (napi_env)&now;

void fail_call(int nth) {
  fault.countdown = nth;
  fault.failed = NULL;
}

void fail_calls_of(const char *name) {
  fault.name = name;
  fault.failed = NULL;
}

const char *failed_call(void) {
  return fault.failed;
}

static bool fails(const char *name) {
  bool is_named = fault.name != NULL && strcmp(fault.name, name) == 0;
  if (!is_named && (fault.countdown == 0 || --fault.countdown > 0)) return false;
  fault.failed = name;
  return true;
}

/*
 * The first macro is for functions that fail while an exception is pending, and the second for
 * functions that do not.
 */
#define MAY_FAIL \
  if (fails(__func__)) return napi_generic_failure
#define MAY_FAIL_OR_THROW \
  MAY_FAIL;               \
  if (now.exception != NULL) return napi_pending_exception

static napi_value make(napi_valuetype type) {
  napi_value value = calloc(1, sizeof *value);
  CHECK(value != NULL);
  value->type = type;
  value->next = now.values;
  now.values = value;
  return value;
}

static napi_value known(napi_value value) {
  napi_value at = now.values;
  while (at != NULL && at != value) at = at->next;
  CHECK(at != NULL);
  return value;
}

napi_status napi_get_cb_info(napi_env env, napi_callback_info info, size_t *count,
                             napi_value *arguments, napi_value *self, void **data) {
  CHECK(env == the_env && self == NULL);
  MAY_FAIL;
  for (size_t index = 0; index < *count; index++)
    arguments[index] = index < info->count ? info->arguments[index] : make(napi_undefined);
  *count = info->count;
  if (data != NULL) *data = info->data;
  return napi_ok;
}

napi_status napi_typeof(napi_env env, napi_value value, napi_valuetype *result) {
  (void)env;
  MAY_FAIL;
  *result = known(value)->type;
  return napi_ok;
}

napi_status napi_get_undefined(napi_env env, napi_value *result) {
  (void)env;
  MAY_FAIL;
  *result = make(napi_undefined);
  return napi_ok;
}

napi_status napi_create_int32(napi_env env, int32_t number, napi_value *result) {
  (void)env;
  MAY_FAIL;
  *result = number_value(number);
  return napi_ok;
}

napi_status napi_create_string_utf8(napi_env env, const char *text, size_t length,
                                    napi_value *result) {
  (void)env;
  CHECK(length == NAPI_AUTO_LENGTH && strlen(text) < MAX_TEXT);
  MAY_FAIL;
  *result = make(napi_string);
  strcpy((*result)->text, text);
  return napi_ok;
}

napi_status napi_create_object(napi_env env, napi_value *result) {
  (void)env;
  MAY_FAIL;
  *result = make(napi_object);
  return napi_ok;
}

napi_status napi_create_error(napi_env env, napi_value code, napi_value message,
                              napi_value *result) {
  (void)env;
  CHECK(code == NULL && known(message)->type == napi_string);
  MAY_FAIL;
  *result = make(napi_object);
  return napi_ok;
}

/* Throws if memory is exhausted, as V8 does. */
napi_status napi_create_arraybuffer(napi_env env, size_t length, void **data, napi_value *result) {
  (void)env;
  if (now.exception != NULL) return napi_pending_exception;
  if (fails(__func__)) {
    now.exception = make(napi_object);
    return napi_pending_exception;
  }
  *result = make(napi_object);
  (*result)->bytes = calloc(1, length + 1);
  (*result)->length = length;
  CHECK((*result)->bytes != NULL);
  *data = (*result)->bytes;
  return napi_ok;
}

napi_status napi_create_typedarray(napi_env env, napi_typedarray_type type, size_t length,
                                   napi_value array_buffer, size_t offset, napi_value *result) {
  (void)env;
  CHECK(type == napi_uint8_array && offset == 0 && known(array_buffer)->length == length);
  MAY_FAIL_OR_THROW;
  *result = make(napi_object);
  (*result)->is_typed = true;
  (*result)->length = length;
  return napi_ok;
}

napi_status napi_set_named_property(napi_env env, napi_value object, const char *name,
                                    napi_value value) {
  (void)env;
  MAY_FAIL_OR_THROW;
  struct property *property = known(object)->properties;
  while (property->name != NULL) property++;
  CHECK(property < object->properties + MAX_PROPERTIES);
  *property = (struct property){.name = name, .value = known(value)};
  return napi_ok;
}

napi_status napi_get_value_double(napi_env env, napi_value value, double *result) {
  (void)env;
  MAY_FAIL;
  if (known(value)->type != napi_number) return napi_number_expected;
  *result = value->number;
  return napi_ok;
}

napi_status napi_get_value_string_utf8(napi_env env, napi_value value, char *text, size_t capacity,
                                       size_t *length) {
  (void)env;
  MAY_FAIL;
  if (known(value)->type != napi_string) return napi_string_expected;
  *length = (size_t)snprintf(text, capacity, "%s", value->text);
  return napi_ok;
}

napi_status napi_is_typedarray(napi_env env, napi_value value, bool *result) {
  (void)env;
  MAY_FAIL;
  *result = known(value)->is_typed;
  return napi_ok;
}

napi_status napi_get_typedarray_info(napi_env env, napi_value value, napi_typedarray_type *type,
                                     size_t *length, void **data, napi_value *array_buffer,
                                     size_t *offset) {
  (void)env;
  CHECK(known(value)->is_typed && array_buffer == NULL && offset == NULL);
  MAY_FAIL;
  *type = napi_uint8_array;
  *length = value->length;
  *data = value->bytes;
  return napi_ok;
}

napi_status napi_wrap(napi_env env, napi_value object, void *native, napi_finalize finalize,
                      void *hint, napi_ref *result) {
  (void)env;
  CHECK(hint == NULL && result == NULL);
  MAY_FAIL_OR_THROW;
  known(object)->wrapped = native;
  object->finalize = finalize;
  return napi_ok;
}

napi_status napi_unwrap(napi_env env, napi_value object, void **result) {
  (void)env;
  MAY_FAIL_OR_THROW;
  *result = known(object)->wrapped;
  return napi_ok;
}

napi_status napi_create_reference(napi_env env, napi_value value, uint32_t count,
                                  napi_ref *result) {
  (void)env;
  CHECK(count == 1);
  MAY_FAIL;
  *result = calloc(1, sizeof **result);
  CHECK(*result != NULL);
  (*result)->value = known(value);
  now.references++;
  return napi_ok;
}

napi_status napi_delete_reference(napi_env env, napi_ref reference) {
  (void)env;
  free(reference);
  now.references--;
  return napi_ok;
}

napi_status napi_get_reference_value(napi_env env, napi_ref reference, napi_value *result) {
  (void)env;
  MAY_FAIL;
  *result = reference->value;
  return napi_ok;
}

napi_status napi_call_function(napi_env env, napi_value self, napi_value function, size_t count,
                               const napi_value *arguments, napi_value *result) {
  (void)env;
  CHECK(result == NULL && count <= MAX_ARGUMENTS);
  MAY_FAIL_OR_THROW;
  if (self == NULL) return napi_invalid_arg;
  CHECK(known(self)->type == napi_undefined);
  CHECK(known(function)->type == napi_function);
  ++*function->calls;
  now.argument_count = count;
  for (size_t index = 0; index < count; index++) now.arguments[index] = known(arguments[index]);
  return napi_ok;
}

napi_status napi_is_exception_pending(napi_env env, bool *result) {
  (void)env;
  *result = now.exception != NULL;
  return napi_ok;
}

napi_status napi_get_and_clear_last_exception(napi_env env, napi_value *result) {
  (void)env;
  *result = now.exception == NULL ? make(napi_undefined) : now.exception;
  now.exception = NULL;
  return napi_ok;
}

napi_status napi_throw(napi_env env, napi_value error) {
  (void)env;
  if (now.exception != NULL) return napi_pending_exception;
  now.exception = known(error);
  return napi_ok;
}

napi_status napi_throw_type_error(napi_env env, const char *code, const char *message) {
  (void)env, (void)code;
  CHECK(now.exception == NULL);
  now.exception = make(napi_object);
  snprintf(now.exception->text, MAX_TEXT, "%s", message);
  return napi_ok;
}

napi_status napi_fatal_exception(napi_env env, napi_value error) {
  (void)env;
  known(error);
  return napi_ok;
}

napi_status napi_open_handle_scope(napi_env env, napi_handle_scope *result) {
  (void)env;
  *result = NULL;
  return napi_ok;
}

napi_status napi_close_handle_scope(napi_env env, napi_handle_scope scope) {
  (void)env, (void)scope;
  return napi_ok;
}

napi_status napi_define_properties(napi_env env, napi_value object, size_t count,
                                   const napi_property_descriptor *properties) {
  (void)env;
  CHECK(count <= MAX_FUNCTIONS && known(object)->type == napi_object);
  MAY_FAIL_OR_THROW;
  memcpy(now.functions, properties, count * sizeof *properties);
  now.function_count = count;
  return napi_ok;
}

napi_status napi_add_env_cleanup_hook(node_api_basic_env env, napi_cleanup_hook hook, void *data) {
  (void)env;
  MAY_FAIL;
  now.hook = hook;
  now.hook_data = data;
  return napi_ok;
}

napi_status napi_create_threadsafe_function(napi_env env, napi_value function, napi_value resource,
                                            napi_value name, size_t queue_size, size_t threads,
                                            void *finalize_data, napi_finalize finalize,
                                            void *context, napi_threadsafe_function_call_js call,
                                            napi_threadsafe_function *result) {
  (void)env, (void)resource;
  CHECK(function == NULL && known(name)->type == napi_string && queue_size == 0 && threads == 1);
  MAY_FAIL;
  struct napi_threadsafe_function__ *made = calloc(1, sizeof *made);
  CHECK(made != NULL);
  made->context = context;
  made->finalize = finalize;
  made->finalize_data = finalize_data;
  made->call = call;
  now.wake_up = *result = made;
  return napi_ok;
}

napi_status napi_unref_threadsafe_function(node_api_basic_env env,
                                           napi_threadsafe_function function) {
  (void)env, (void)function;
  MAY_FAIL;
  return napi_ok;
}

/* May be called on any thread. */
napi_status napi_call_threadsafe_function(napi_threadsafe_function function, void *data,
                                          napi_threadsafe_function_call_mode mode) {
  (void)data, (void)mode;
  function->has_rung = true;
  return napi_ok;
}

napi_status napi_release_threadsafe_function(napi_threadsafe_function function,
                                             napi_threadsafe_function_release_mode mode) {
  CHECK(mode == napi_tsfn_abort && function == now.wake_up);
  function->finalize(the_env, function->finalize_data, NULL);
  free(function);
  now.wake_up = NULL;
  return napi_ok;
}

/* Returns whether an exception is pending, and clears it. */
static bool has_thrown(void) {
  bool thrown = now.exception != NULL;
  now.exception = NULL;
  return thrown;
}

/* Defined in addon.c. */
napi_value napi_register_module_v1(napi_env env, napi_value exports);

bool load_addon(void) {
  napi_value exports = napi_register_module_v1(the_env, make(napi_object));
  bool is_thrown = has_thrown();
  CHECK((exports == NULL) == is_thrown);
  return !is_thrown;
}

napi_value call_addon(const char *name, size_t count, const napi_value *arguments) {
  size_t at = 0;
  while (at < now.function_count && strcmp(now.functions[at].utf8name, name) != 0) at++;
  CHECK(at < now.function_count);
  struct napi_callback_info__ info = {
      .count = count, .arguments = arguments, .data = now.functions[at].data};
  napi_value result = now.functions[at].method(the_env, &info);
  bool is_thrown = has_thrown();
  /* If creating `undefined` failed, the missing value is treated as `undefined`. */
  bool is_undefined = fault.failed != NULL && strcmp(fault.failed, "napi_get_undefined") == 0;
  if (result == NULL && !is_thrown && is_undefined) return make(napi_undefined);
  CHECK((result == NULL) == is_thrown);
  return result;
}

void turn_event_loop(void) {
  if (!atomic_exchange(&now.wake_up->has_rung, false)) return;
  now.wake_up->call(the_env, NULL, now.wake_up->context, NULL);
  CHECK(!has_thrown());
}

void end_environment_of_addon(void) {
  if (now.hook != NULL) now.hook(now.hook_data);
  for (napi_value value = now.values; value != NULL; value = value->next)
    if (value->finalize != NULL) value->finalize(the_env, value->wrapped, NULL);
  CHECK_EQUAL(now.references, 0);
  CHECK(now.wake_up == NULL);
  while (now.values != NULL) {
    napi_value value = now.values;
    now.values = value->next;
    free(value->bytes);
    free(value);
  }
  memset(&now, 0, sizeof now);
}

napi_value number_value(double number) {
  napi_value value = make(napi_number);
  value->number = number;
  return value;
}

napi_value bytes_value(const void *bytes, size_t length) {
  napi_value value = make(napi_object);
  value->is_typed = true;
  value->bytes = malloc(length + 1);
  CHECK(value->bytes != NULL);
  memcpy(value->bytes, bytes, length);
  value->length = length;
  return value;
}

napi_value undefined_value(void) {
  return make(napi_undefined);
}

napi_value counting_function(int *calls) {
  napi_value value = make(napi_function);
  value->calls = calls;
  return value;
}

size_t last_argument_count(void) {
  return now.argument_count;
}

napi_value last_argument(size_t index) {
  CHECK(index < now.argument_count);
  return now.arguments[index];
}

double number_of(napi_value value) {
  CHECK(known(value)->type == napi_number);
  return value->number;
}
