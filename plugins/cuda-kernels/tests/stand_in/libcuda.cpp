// A library with the entry points of NVIDIA's driver that the backend calls. Kernels run on the processor as soon as they are
// launched. It counts what is made and given back, and does as it is told by a line of words:
//
//   devices=9.0,6.1   compute capability of each device                    version=12040   the CUDA version that it supports
//   memory=BYTES      of each device                                       init=RESULT     what starting it gives
//   left=BYTES        what others leave of it, from the first time that    ptx=RESULT      what loading a module gives
//                     somebody asks how much is free
//   fail=N            the N-th call from now that can fail does            with=RESULT     what it gives
//   lost=1            and so does every call after it for that device, until nobody holds its context any more
//   idle=1            kernels are only checked, and memory is full of zeros: what is asked then is who notices a failure
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>

typedef int Result;
enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, NO_BINARY = 209,
    INVALID_HANDLE = 400, NOT_FOUND = 500, CAPTURE_UNSUPPORTED = 900
};

typedef void (*Entry)(u32, u32, u32, u32, const void*);
struct Function { Entry entry; u64 most, size; };
struct Module { std::string text; std::map<std::string, Function> functions; };
struct Launch { Entry entry; u32 grid[3], threads; std::vector<char> parameters; };
struct Graph { std::vector<Launch> launches; };
struct Stream { Graph* recording; };
struct Event {};

struct Context {
    int device, holders;
    bool lost;
    std::map<u64, u64> memory, pinned;
    std::set<Module*> modules;
    std::set<Graph*> graphs, executables;
    std::set<Stream*> streams;
    std::set<Event*> events;
    u64 used;
};

struct Device { int major, minor; Context* context; };

static struct {
    std::mutex lock;
    std::vector<Device> devices;
    u64 memory = 1 << 30, left = ~0ull, fail = 0, calls = 0, most_pinned = 0, leaked = 0;
    int version = 12040, init = SUCCESS, ptx = SUCCESS, with = SUCCESS;
    bool lost = false, asked = false, idle = false;
} driver;
static thread_local Context* current = nullptr;

#define ENTRY extern "C" __attribute__((visibility("default")))
#define LOCKED std::lock_guard<std::mutex> locked(driver.lock)

static void obey(const char* line) {
    std::istringstream words(line);
    for (std::string word; words >> word;) {
        std::string name = word.substr(0, word.find('=')), value = word.substr(word.find('=') + 1);
        u64 number = strtoull(value.c_str(), nullptr, 10);
        if (name == "devices") {
            driver.devices.clear();
            std::istringstream all(value);
            for (std::string one; std::getline(all, one, ',');)
                driver.devices.push_back({atoi(one.c_str()), atoi(one.c_str() + one.find('.') + 1), nullptr});
        }
        if (name == "memory") driver.memory = number;
        if (name == "left") driver.left = number, driver.asked = false;
        if (name == "version") driver.version = (int)number;
        if (name == "init") driver.init = (int)number;
        if (name == "ptx") driver.ptx = (int)number;
        if (name == "fail") driver.fail = number, driver.calls = 0;
        if (name == "with") driver.with = (int)number;
        if (name == "lost") driver.lost = number != 0;
        if (name == "idle") driver.idle = number != 0;
    }
}

ENTRY void stand_in(const char* line) { LOCKED; obey(line); }

// What is there now: 0 allocations, 1 pinned buffers, 2 modules, 3 graphs, 4 streams, 5 events, 6 contexts; 7 the calls since
// `fail`, 8 the most bytes of a pinned buffer, 9 what was left in contexts that were not lost when nobody held them any more.
ENTRY u64 stand_in_count(u32 what) {
    LOCKED;
    u64 sum = 0;
    if (what == 7) return driver.calls;
    if (what == 8) return driver.most_pinned;
    if (what == 9) return driver.leaked;
    for (Device& device : driver.devices) {
        Context* c = device.context;
        if (!c) continue;
        u64 all[] = {c->memory.size(), c->pinned.size(), c->modules.size(), c->graphs.size() + c->executables.size(),
                     c->streams.size(), c->events.size(), 1};
        sum += all[what];
    }
    return sum;
}

// Whether this call fails.
static Result called() {
    if (!current) return INVALID_CONTEXT;
    if (current->lost) return driver.with;
    if (++driver.calls != driver.fail) return SUCCESS;
    current->lost = driver.lost;
    return driver.with;
}
#define CALLED LOCKED; if (Result result = called()) return result

// The same for what is given back: only a device that is lost does not take it.
#define RETURNED LOCKED; if (!current) return INVALID_CONTEXT; if (current->lost) return driver.with

static bool has(const std::map<u64, u64>& memory, u64 at, u64 bytes) {
    auto after = memory.upper_bound(at);
    if (after == memory.begin()) return false;
    auto found = std::prev(after);
    return at + bytes <= found->first + found->second;
}

static void run(const Launch& launch) {
    if (driver.idle) return;
    launch.entry(launch.grid[0], launch.grid[1], launch.grid[2], launch.threads, launch.parameters.data());
}

struct Text { Result result; const char *name, *words; };
static const Text TEXTS[] = {
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
};
static const Text* text(Result result) {
    for (const Text& text : TEXTS)
        if (text.result == result) return &text;
    return nullptr;
}

ENTRY Result cuGetErrorString(Result result, const char** out) {
    const Text* known = text(result);
    *out = known ? known->words : nullptr;
    return known ? SUCCESS : INVALID_VALUE;
}
ENTRY Result cuGetErrorName(Result result, const char** out) {
    const Text* known = text(result);
    *out = known ? known->name : nullptr;
    return known ? SUCCESS : INVALID_VALUE;
}
ENTRY Result cuInit(u32) {
    LOCKED;
    if (const char* line = getenv("APR_STAND_IN_CUDA")) obey(line);
    return driver.init;
}
ENTRY Result cuDriverGetVersion(int* out) { LOCKED; *out = driver.version; return SUCCESS; }
ENTRY Result cuDeviceGetCount(int* out) { LOCKED; *out = (int)driver.devices.size(); return SUCCESS; }
ENTRY Result cuDeviceGet(int* out, int number) {
    LOCKED;
    if (number < 0 || number >= (int)driver.devices.size()) return INVALID_DEVICE;
    *out = number;
    return SUCCESS;
}
ENTRY Result cuDeviceGetAttribute(int* out, int attribute, int device) {
    LOCKED;
    Device& of = driver.devices[device];
    *out = attribute == 75 ? of.major : attribute == 76 ? of.minor : 0;
    return SUCCESS;
}
ENTRY Result cuDeviceGetName(char* out, int size, int device) {
    snprintf(out, size, "stand-in %d", device);
    return SUCCESS;
}
ENTRY Result cuDeviceTotalMem_v2(size_t* out, int) { LOCKED; *out = driver.memory; return SUCCESS; }

ENTRY Result cuDevicePrimaryCtxRetain(Context** out, int device) {
    LOCKED;
    if (++driver.calls == driver.fail) return driver.with;
    Context*& context = driver.devices[device].context;
    if (!context) context = new Context{device, 0, false, {}, {}, {}, {}, {}, {}, {}, 0};
    context->holders++;
    *out = context;
    return SUCCESS;
}
ENTRY Result cuDevicePrimaryCtxRelease_v2(int device) {
    LOCKED;
    Context*& context = driver.devices[device].context;
    if (!context) return INVALID_CONTEXT;
    if (--context->holders) return SUCCESS;
    Context& c = *context;
    if (!c.lost)
        driver.leaked += c.memory.size() + c.pinned.size() + c.modules.size() + c.graphs.size() + c.executables.size() +
                         c.streams.size() + c.events.size();
    // The end of a context ends whatever is in it.
    for (auto& one : c.memory) guarded_give(one.first, one.second);
    for (auto& one : c.pinned) guarded_give(one.first, one.second);
    for (Module* one : c.modules) delete one;
    for (Graph* one : c.graphs) delete one;
    for (Graph* one : c.executables) delete one;
    for (Stream* one : c.streams) delete one;
    for (Event* one : c.events) delete one;
    if (current == context) current = nullptr;
    delete context;
    context = nullptr;
    return SUCCESS;
}
ENTRY Result cuCtxSetCurrent(Context* context) {
    LOCKED;
    for (Device& device : driver.devices)
        if (device.context == context) {
            current = context;
            return context->lost ? driver.with : SUCCESS;
        }
    return INVALID_CONTEXT;
}

ENTRY Result cuModuleLoadDataEx(Module** out, const void* image, u32, const int*, void** values) {
    CALLED;
    std::string text((const char*)image);
    const Device& device = driver.devices[current->device];
    int target = atoi(text.c_str() + text.find(".target sm_") + 11);
    Result result = driver.ptx ? driver.ptx : target > device.major * 10 + device.minor ? NO_BINARY : SUCCESS;
    if (result) {
        snprintf((char*)values[0], (size_t)values[1], "ptxas application ptx input, line 1; fatal");
        return result;
    }
    *out = new Module{text, {}};
    current->modules.insert(*out);
    return SUCCESS;
}
ENTRY Result cuModuleUnload(Module* module) {
    RETURNED;
    if (!current->modules.erase(module)) return INVALID_HANDLE;
    delete module;
    return SUCCESS;
}
ENTRY Result cuModuleGetFunction(Function** out, Module* module, const char* name) {
    CALLED;
    if (!current->modules.count(module)) return INVALID_HANDLE;
    if (module->text.find(std::string(".entry ") + name + "(") == std::string::npos) return NOT_FOUND;
    Dl_info info;
    dladdr((void*)&stand_in, &info);
    void* self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    auto number = [&](const char* what) { return ((u64(*)())dlsym(self, (std::string(name) + what).c_str()))(); };
    module->functions[name] = {(Entry)dlsym(self, name), number("_threads"), number("_params")};
    dlclose(self);
    *out = &module->functions[name];
    return SUCCESS;
}

ENTRY Result cuMemGetInfo_v2(size_t* free, size_t* total) {
    CALLED;
    *total = driver.memory;
    *free = driver.memory - current->used;
    driver.asked = true;
    return SUCCESS;
}
ENTRY Result cuMemAlloc_v2(u64* out, size_t bytes) {
    CALLED;
    u64 most = driver.asked && driver.left < driver.memory ? driver.left : driver.memory;
    if (bytes == 0) return INVALID_VALUE;
    if (current->used + bytes > most) return OUT_OF_MEMORY;
    u64 at = driver.idle ? guarded_zeros(bytes) : guarded_take(bytes);
    if (!at) return OUT_OF_MEMORY;
    current->used += bytes;
    current->memory[at] = bytes;
    *out = at;
    return SUCCESS;
}
ENTRY Result cuMemFree_v2(u64 at) {
    RETURNED;
    auto found = current->memory.find(at);
    if (found == current->memory.end()) return INVALID_VALUE;
    current->used -= found->second;
    guarded_give(at, found->second);
    current->memory.erase(found);
    return SUCCESS;
}
ENTRY Result cuMemAllocHost_v2(void** out, size_t bytes) {
    CALLED;
    u64 at = guarded_take(bytes);
    if (!at) return OUT_OF_MEMORY;
    current->pinned[at] = bytes;
    if (bytes > driver.most_pinned) driver.most_pinned = bytes;
    *out = (void*)at;
    return SUCCESS;
}
ENTRY Result cuMemFreeHost(void* at) {
    RETURNED;
    auto found = current->pinned.find((u64)at);
    if (found == current->pinned.end()) return INVALID_VALUE;
    guarded_give(found->first, found->second);
    current->pinned.erase(found);
    return SUCCESS;
}

ENTRY Result cuMemcpyHtoD_v2(u64 to, const void* from, size_t bytes) {
    CALLED;
    if (!has(current->memory, to, bytes)) return INVALID_VALUE;
    memcpy((void*)to, from, bytes);
    return SUCCESS;
}
ENTRY Result cuMemcpyDtoH_v2(void* to, u64 from, size_t bytes) {
    CALLED;
    if (!has(current->memory, from, bytes)) return INVALID_VALUE;
    memcpy(to, (void*)from, bytes);
    return SUCCESS;
}
ENTRY Result cuMemcpyHtoDAsync_v2(u64 to, const void* from, size_t bytes, Stream*) { return cuMemcpyHtoD_v2(to, from, bytes); }
ENTRY Result cuMemcpyDtoHAsync_v2(void* to, u64 from, size_t bytes, Stream*) { return cuMemcpyDtoH_v2(to, from, bytes); }
ENTRY Result cuMemcpyDtoDAsync_v2(u64 to, u64 from, size_t bytes, Stream*) {
    CALLED;
    if (!has(current->memory, from, bytes) || !has(current->memory, to, bytes)) return INVALID_VALUE;
    memcpy((void*)to, (void*)from, bytes);
    return SUCCESS;
}
ENTRY Result cuMemsetD8Async(u64 at, unsigned char value, size_t bytes, Stream*) {
    CALLED;
    if (!has(current->memory, at, bytes)) return INVALID_VALUE;
    memset((void*)at, value, bytes);
    return SUCCESS;
}

ENTRY Result cuStreamCreate(Stream** out, u32) {
    CALLED;
    *out = new Stream{nullptr};
    current->streams.insert(*out);
    return SUCCESS;
}
ENTRY Result cuStreamDestroy_v2(Stream* stream) {
    RETURNED;
    if (!current->streams.erase(stream)) return INVALID_HANDLE;
    delete stream;
    return SUCCESS;
}
ENTRY Result cuStreamSynchronize(Stream* stream) {
    CALLED;
    return stream && stream->recording ? CAPTURE_UNSUPPORTED : SUCCESS;
}
ENTRY Result cuStreamBeginCapture_v2(Stream* stream, int) {
    CALLED;
    if (stream->recording) return CAPTURE_UNSUPPORTED;
    stream->recording = new Graph{};
    current->graphs.insert(stream->recording);
    return SUCCESS;
}
ENTRY Result cuStreamEndCapture(Stream* stream, Graph** out) {
    LOCKED;
    Result result = called();
    *out = nullptr;
    if (!current || !stream->recording) return INVALID_VALUE;
    if (result) {
        // A recording ends in any case.
        current->graphs.erase(stream->recording);
        delete stream->recording;
    } else {
        *out = stream->recording;
    }
    stream->recording = nullptr;
    return result;
}
ENTRY Result cuGraphInstantiateWithFlags(Graph** out, Graph* graph, u64) {
    CALLED;
    *out = new Graph(*graph);
    current->executables.insert(*out);
    return SUCCESS;
}
ENTRY Result cuGraphDestroy(Graph* graph) {
    RETURNED;
    if (!current->graphs.erase(graph)) return INVALID_HANDLE;
    delete graph;
    return SUCCESS;
}
ENTRY Result cuGraphExecDestroy(Graph* graph) {
    RETURNED;
    if (!current->executables.erase(graph)) return INVALID_HANDLE;
    delete graph;
    return SUCCESS;
}
ENTRY Result cuGraphLaunch(Graph* graph, Stream*) {
    CALLED;
    if (!current->executables.count(graph)) return INVALID_HANDLE;
    for (const Launch& launch : graph->launches) run(launch);
    return SUCCESS;
}

struct Config { u32 grid[3], block[3], shared; Stream* stream; void* attributes; u32 count; };
ENTRY Result cuLaunchKernelEx(const Config* config, Function* function, void** parameters, void**) {
    CALLED;
    u32 threads = config->block[0], y = config->grid[1], z = config->grid[2];
    if (threads == 0 || threads > function->most || threads % 32) return INVALID_VALUE;
    if (config->grid[0] == 0 || y == 0 || y > 65535 || z == 0 || z > 65535) return INVALID_VALUE;
    Launch launch = {function->entry, {config->grid[0], y, z}, threads, {}};
    launch.parameters.assign((char*)parameters[0], (char*)parameters[0] + function->size);
    if (config->stream->recording) config->stream->recording->launches.push_back(launch);
    else run(launch);
    return SUCCESS;
}

ENTRY Result cuEventCreate(Event** out, u32) {
    CALLED;
    *out = new Event;
    current->events.insert(*out);
    return SUCCESS;
}
ENTRY Result cuEventRecord(Event*, Stream*) { CALLED; return SUCCESS; }
ENTRY Result cuEventElapsedTime(float* out, Event*, Event*) { CALLED; *out = 1; return SUCCESS; }
ENTRY Result cuEventDestroy_v2(Event* event) {
    RETURNED;
    if (!current->events.erase(event)) return INVALID_HANDLE;
    delete event;
    return SUCCESS;
}
