/* replay.c - runs a fuzz target over the files and directories that it is given, without libFuzzer: so the kept corpus
 * is a test with every compiler. Says which file it was when the target ends the process. */
#include "fuzz.h"

#include "base/slice.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

static unsigned files;

static void file_run(const char *path)
{
    struct buf bytes = {0};
    FILE *f = fopen(path, "re");
    MUST(f != NULL);
    for (size_t n; (n = fread(buf_reserve(&bytes, 4096), 1, 4096, f)) > 0;)
        bytes.n += n;
    MUST(!ferror(f));
    fclose(f);
    char *exact = fuzz_copy((const uint8_t *)bytes.p, bytes.n);
    printf("%s\n", path);
    fflush(stdout);
    LLVMFuzzerTestOneInput((const uint8_t *)exact, bytes.n);
    files++;
    heap_free(exact);
    buf_free(&bytes);
}

static void directory_run(const char *path)
{
    struct dirent **names;
    int n = scandir(path, &names, NULL, alphasort);
    MUST(n >= 0);
    for (int i = 0; i < n; i++) {
        char file[4096];
        int length = snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
        MUST(length > 0 && (size_t)length < sizeof file);
        if (names[i]->d_name[0] != '.') file_run(file);
        free(names[i]);
    }
    free(names);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct stat is;
        if (stat(argv[i], &is) != 0) {
            fprintf(stderr, "%s: %s\n", argv[i], strerror(errno));
            return 1;
        }
        if (S_ISDIR(is.st_mode))
            directory_run(argv[i]);
        else
            file_run(argv[i]);
    }
    printf("%u files\n", files);
    return files > 0 ? 0 : 1;
}
