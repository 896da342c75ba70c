/* The call of one library into another, redirected: the entry of the global offset table that the dynamic linker has
 * filled in for the symbol. Other libraries keep calling the original. */
#include "producers/torch/torch_watch.h"

#include "base/status.h"

#include <assert.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The search for a library's entries. */
struct search {
    const char *library, *symbol;
    void *replacement;
    int replaced; /* entries that have the replacement */
};

/* The parts of a library that the search reads. */
struct tables {
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * relocations[2]; /* of calls, and of data */
    size_t bytes[2];
};

static struct tables find_tables(const ElfW(Dyn) * entry)
{
    struct tables tables = {0};
    for (; entry->d_tag != DT_NULL; entry++)
        switch (entry->d_tag) {
        case DT_SYMTAB:
            tables.symbols = (const void *)entry->d_un.d_ptr;
            break;
        case DT_STRTAB:
            tables.names = (const void *)entry->d_un.d_ptr;
            break;
        case DT_JMPREL:
            tables.relocations[0] = (const void *)entry->d_un.d_ptr;
            break;
        case DT_PLTRELSZ:
            tables.bytes[0] = entry->d_un.d_val;
            break;
        case DT_RELA:
            tables.relocations[1] = (const void *)entry->d_un.d_ptr;
            break;
        case DT_RELASZ:
            tables.bytes[1] = entry->d_un.d_val;
            break;
        default:
            break;
        }
    return tables;
}

/* True if the dynamic linker made the page at `begin` read-only after it had filled in the tables: it protects whole
 * pages, and leaves the last one writable if its end is not the segment's. */
static bool is_sealed(const struct dl_phdr_info *library, uintptr_t begin, uintptr_t page)
{
    for (int i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &library->dlpi_phdr[i];
        const uintptr_t first = library->dlpi_addr + segment->p_vaddr, end = first + segment->p_memsz;
        if (segment->p_type == PT_GNU_RELRO && first / page * page <= begin && begin < end / page * page)
            return true;
    }
    return false;
}

/* Writes one entry of the table, and leaves its page as protected as it was. False if the page can't be made
 * writable. */
static bool write_entry(const struct dl_phdr_info *library, void **entry, void *value)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)entry / page * page;
    const bool sealed = is_sealed(library, begin, page);
    if (sealed && mprotect((void *)begin, page, PROT_READ | PROT_WRITE) != 0)
        return false;
    __atomic_store_n(entry, value, __ATOMIC_RELEASE);
    if (sealed)
        (void)mprotect((void *)begin, page, PROT_READ);
    return true;
}

static void replace_in(const struct dl_phdr_info *library, const struct tables *tables, struct search *search)
{
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; tables->relocations[t] != NULL && i < tables->bytes[t] / sizeof(ElfW(Rela)); i++) {
            const ElfW(Rela) *relocation = &tables->relocations[t][i];
            const ElfW(Sym) *symbol = &tables->symbols[ELF64_R_SYM(relocation->r_info)];
            if (ELF64_R_SYM(relocation->r_info) == 0 || strcmp(tables->names + symbol->st_name, search->symbol) != 0)
                continue;
            search->replaced +=
                write_entry(library, (void **)(library->dlpi_addr + relocation->r_offset), search->replacement);
        }
}

static int visit(struct dl_phdr_info *library, size_t size, void *context)
{
    struct search *search = context;
    const char *file = strrchr(library->dlpi_name, '/');
    (void)size;
    if (strcmp(file != NULL ? file + 1 : library->dlpi_name, search->library) != 0)
        return 0;
    for (int i = 0; i < library->dlpi_phnum; i++)
        if (library->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            const struct tables tables =
                find_tables((const void *)(library->dlpi_addr + library->dlpi_phdr[i].p_vaddr));
            if (tables.symbols != NULL && tables.names != NULL)
                replace_in(library, &tables, search);
        }
    return 1;
}

int mt_torch_call_replace(const char *library, const char *owner, const char *symbol, void *replacement,
                          void **out_original)
{
    struct search search = {.library = library, .symbol = symbol, .replacement = replacement};
    void *handle = dlopen(owner, RTLD_LAZY | RTLD_NOLOAD);
    assert(replacement != NULL);
    void *original = handle != NULL ? dlsym(handle, symbol) : NULL;
    if (handle != NULL)
        dlclose(handle);
    if (original == NULL)
        return mt_fail(MT_NO_DEVICE, "%s is not loaded, or has no %s", owner, symbol);
    *out_original = original; /* before the first call may come through the replacement */
    dl_iterate_phdr(visit, &search);
    if (search.replaced > 0)
        return MT_OK;
    *out_original = NULL;
    return mt_fail(MT_NO_DEVICE, "%s is not loaded, does not call %s, or its calls can't be redirected", library,
                   symbol);
}
