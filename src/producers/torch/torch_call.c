/* The call of one library into another, redirected: the entry of the global offset table that the dynamic linker has
 * filled in for the symbol. Other libraries keep calling the original. */
#include "producers/torch/torch_watch.h"

#include "base/status.h"

#include <assert.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The search for a library's entries. */
struct search {
    const char *library, *symbol;
    void *replacement;
    int replaced;
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

/* Writes one word of the table, which the dynamic linker may have made read-only after it had filled it in. */
static void write_entry(void **entry, void *value)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *begin = (void *)((uintptr_t)entry / page * page);
    if (mprotect(begin, page, PROT_READ | PROT_WRITE) == 0)
        __atomic_store_n(entry, value, __ATOMIC_RELEASE);
}

static void replace_in(const struct dl_phdr_info *library, const struct tables *tables, struct search *search)
{
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; tables->relocations[t] != NULL && i < tables->bytes[t] / sizeof(ElfW(Rela)); i++) {
            const ElfW(Rela) *relocation = &tables->relocations[t][i];
            const ElfW(Sym) *symbol = &tables->symbols[ELF64_R_SYM(relocation->r_info)];
            if (ELF64_R_SYM(relocation->r_info) == 0 || strcmp(tables->names + symbol->st_name, search->symbol) != 0)
                continue;
            write_entry((void **)(library->dlpi_addr + relocation->r_offset), search->replacement);
            search->replaced++;
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
    return search.replaced > 0 ? MT_OK
                               : mt_fail(MT_NO_DEVICE, "%s is not loaded, or does not call %s", library, symbol);
}
