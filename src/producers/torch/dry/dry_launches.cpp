/* Kernel launches by the code of other libraries, such as modules that torch.utils.cpp_extension builds. Their host
 * code runs; launches do nothing.
 *
 * A library that is loaded after PyTorch calls the CUDA runtime and c10::cuda through its table of imported functions.
 * Our functions replace the entries for launches, for the calls that follow a launch, and for the current device and
 * stream. Entries of other libraries do not change, nor do libraries that contain the runtime themselves. Any other
 * call fails, as without a driver.
 *
 * Threads: one at a time scans libraries (Python's lock); any thread calls the functions. */
#include "producers/torch/dry/dry_device.h"
#include "producers/torch/dry/dry_library.h"
#include "producers/torch/memtrace_torch.h"

#include <c10/util/Exception.h>

#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <unordered_map>
#include <unordered_set>

namespace mt_dry
{

namespace
{

/* ---- the replacements ---- */

constexpr int SUCCESS = 0; /* cudaSuccess */

/* A kernel may read and write any tensor: its arguments do not say which. */
int skip_launch()
{
    memtrace_torch_lose_uses();
    forget_values();
    return SUCCESS;
}

int succeed()
{
    return SUCCESS;
}

/* c10::cuda::GetDevice, SetDevice, MaybeSetDevice and ExchangeDevice, in c10/cuda/CUDAFunctions.h. */
int get_device(c10::DeviceIndex *device)
{
    *device = current_device();
    return SUCCESS;
}

int set_device(c10::DeviceIndex device)
{
    set_current_device(device);
    return SUCCESS;
}

c10::DeviceIndex exchange_device(c10::DeviceIndex device)
{
    const c10::DeviceIndex before = current_device();
    set_current_device(device);
    return before;
}

c10::DeviceIndex count_devices()
{
    return static_cast<c10::DeviceIndex>(card_count());
}

/* A c10::cuda::CUDAStream holds a c10::Stream and nothing else. `device` is negative for the current one. */
c10::Device device_of(c10::DeviceIndex device)
{
    return {c10::DeviceType::CUDA, device < 0 ? current_device() : device};
}

c10::Stream get_stream(c10::DeviceIndex device)
{
    return current_stream(device_of(device).index());
}

c10::Stream get_default_stream(c10::DeviceIndex device)
{
    return c10::Stream(c10::Stream::DEFAULT, device_of(device));
}

c10::Stream make_stream(int, c10::DeviceIndex device)
{
    return c10::Stream(c10::Stream::UNSAFE, device_of(device), memtrace_dry_new_stream());
}

void set_stream(c10::Stream stream)
{
    memtrace_dry_stream(stream.device_index(), stream.id());
}

/* c10::cuda::CUDAStream::stream, whose result only CUDA reads, and CUDAStream::query. */
void *handle_of(const c10::Stream *stream)
{
    return reinterpret_cast<void *>(stream->id());
}

bool is_done(const c10::Stream *)
{
    return true;
}

/* Returns the path of the library whose code contains an address. */
const char *library_of(const void *address)
{
    Dl_info place{};
    return dladdr(address, &place) != 0 && place.dli_fname != nullptr ? place.dli_fname : "a library";
}

/* c10::cuda::c10_cuda_check_implementation, whose last parameters differ between versions. */
void check(int error, const char *file, const char *function, int line)
{
    TORCH_CHECK(error == SUCCESS, "memtrace: a call of CUDA in ", function, " (", file, ":", line, ") of ",
                library_of(__builtin_return_address(0)), " needs a driver (error ", error,
                "). A dry run has none: of other libraries' own code, it skips launches of kernels alone");
}

/* at::cuda::getCurrentDeviceProperties and getDeviceProperties, whose struct differs between versions of CUDA. */
void *refuse_properties()
{
    TORCH_CHECK(false, "memtrace: ", library_of(__builtin_return_address(0)),
                " reads the card's properties (at::cuda::getDeviceProperties), which a dry run does not have in C++");
}

template <typename function> void *address_of(function *made)
{
    return reinterpret_cast<void *>(made);
}

/* By the name of the imported function. Code from nvcc 13 launches through __cudaLaunchKernel. */
const std::unordered_map<std::string, void *> replacements = {
    {"cudaLaunchKernel", address_of(&skip_launch)},
    {"cudaLaunchKernelExC", address_of(&skip_launch)},
    {"cudaLaunchCooperativeKernel", address_of(&skip_launch)},
    {"__cudaLaunchKernel", address_of(&skip_launch)},
    {"cudaGetLastError", address_of(&succeed)},
    {"cudaPeekAtLastError", address_of(&succeed)},
    {"cudaFuncSetAttribute", address_of(&succeed)},
    {"cudaDeviceSynchronize", address_of(&succeed)},
    {"cudaStreamSynchronize", address_of(&succeed)},
    {"_ZN3c104cuda9GetDeviceEPa", address_of(&get_device)},
    {"_ZN3c104cuda9SetDeviceEab", address_of(&set_device)},
    {"_ZN3c104cuda14MaybeSetDeviceEa", address_of(&set_device)},
    {"_ZN3c104cuda14ExchangeDeviceEa", address_of(&exchange_device)},
    {"_ZN3c104cuda12device_countEv", address_of(&count_devices)},
    {"_ZN3c104cuda14current_deviceEv", address_of(&current_device)},
    {"_ZN3c104cuda20getCurrentCUDAStreamEa", address_of(&get_stream)},
    {"_ZN3c104cuda20getDefaultCUDAStreamEa", address_of(&get_default_stream)},
    {"_ZN3c104cuda17getStreamFromPoolEba", address_of(&make_stream)},
    {"_ZN3c104cuda17getStreamFromPoolEia", address_of(&make_stream)},
    {"_ZN3c104cuda20setCurrentCUDAStreamENS0_10CUDAStreamE", address_of(&set_stream)},
    {"_ZNK3c104cuda10CUDAStream6streamEv", address_of(&handle_of)},
    {"_ZNK3c104cuda10CUDAStreamcvP11CUstream_stEv", address_of(&handle_of)},
    {"_ZNK3c104cuda10CUDAStream5queryEv", address_of(&is_done)},
    {"_ZNK3c104cuda10CUDAStream11synchronizeEv", address_of(&succeed)},
    {"_ZN2at4cuda26getCurrentDevicePropertiesEv", address_of(&refuse_properties)},
    {"_ZN2at4cuda19getDevicePropertiesEa", address_of(&refuse_properties)},
    {"_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib", address_of(&check)},
    {"_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb", address_of(&check)},
    {"_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jbPNS0_19CUDAErrorLogCaptureE", address_of(&check)},
};

/* ---- the tables of a library ---- */

struct library {
    ElfW(Addr) base, read_only = 0, read_only_end = 0; /* what the loader protects once it has filled it */
    const ElfW(Sym) *symbols = nullptr;
    const char *names = nullptr;
    std::unordered_map<ElfW(Sxword), ElfW(Addr)> dynamic; /* by tag */

    explicit library(const dl_phdr_info &info) : base(info.dlpi_addr)
    {
        for (int i = 0; i < info.dlpi_phnum; i++)
            read(info.dlpi_phdr[i]);
        symbols = reinterpret_cast<const ElfW(Sym) *>(dynamic[DT_SYMTAB]);
        names = reinterpret_cast<const char *>(dynamic[DT_STRTAB]);
    }

    void read(const ElfW(Phdr) & header)
    {
        if (header.p_type == PT_GNU_RELRO) {
            read_only = base + header.p_vaddr;
            read_only_end = read_only + header.p_memsz;
        }
        if (header.p_type == PT_DYNAMIC)
            for (const auto *entry = reinterpret_cast<const ElfW(Dyn) *>(base + header.p_vaddr);
                 entry->d_tag != DT_NULL; entry++)
                dynamic[entry->d_tag] = entry->d_un.d_ptr;
    }

    void write(ElfW(Addr) place, void *value) const
    {
        const auto page = static_cast<ElfW(Addr)>(sysconf(_SC_PAGESIZE));
        const bool is_protected = place >= read_only && place < read_only_end;
        void *begin = reinterpret_cast<void *>(place / page * page);
        if (is_protected && mprotect(begin, page, PROT_READ | PROT_WRITE) != 0)
            return;
        *reinterpret_cast<void **>(place) = value;
        if (is_protected)
            mprotect(begin, page, PROT_READ);
    }

    void replace(ElfW(Addr) table, size_t bytes) const
    {
        const auto *entries = reinterpret_cast<const ElfW(Rela) *>(table);
        for (size_t i = 0; i < bytes / sizeof *entries; i++) {
            const auto symbol = ELF64_R_SYM(entries[i].r_info);
            const auto found = symbol != 0 ? replacements.find(names + symbols[symbol].st_name) : replacements.end();
            if (found != replacements.end())
                write(base + entries[i].r_offset, found->second);
        }
    }

    void replace_all()
    {
        if (symbols == nullptr || names == nullptr)
            return;
        replace(dynamic[DT_JMPREL], dynamic[DT_PLTRELSZ]);
        replace(dynamic[DT_RELA], dynamic[DT_RELASZ]);
    }
};

/* ---- the libraries to scan ---- */

struct scan {
    std::unordered_set<std::string> seen; /* PyTorch's, and those that were scanned */
    unsigned long long loads = 0;
    bool is_first = true;
};

int visit(dl_phdr_info *info, size_t, void *context)
{
    auto *state = static_cast<scan *>(context);
    state->loads = info->dlpi_adds;
    const bool is_new = state->seen.insert(info->dlpi_name).second;
    if (is_new && !state->is_first && std::strstr(info->dlpi_name, "/nvidia/") == nullptr)
        library(*info).replace_all();
    return 0;
}

int read_loads(dl_phdr_info *info, size_t, void *loads)
{
    *static_cast<unsigned long long *>(loads) = info->dlpi_adds;
    return 1;
}

} // namespace

} // namespace mt_dry

void memtrace_dry_launch(void)
{
    mt_dry::skip_launch();
}

void memtrace_dry_skip_launches(void)
{
    static mt_dry::scan state;
    unsigned long long loads = 0;
    dl_iterate_phdr(&mt_dry::read_loads, &loads);
    if (loads == state.loads)
        return;
    dl_iterate_phdr(&mt_dry::visit, &state);
    state.is_first = false;
}
