/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers between accounts that lose no money. Each transfer reads two accounts, and writes both on the condition
 * that no other client has written them since. If another client has, the transfer starts again. Several threads make
 * transfers at the same time. The sum of all accounts does not change.
 *
 *     cc -o transfer transfer.c -lwss -pthread && ./transfer tcp://10.0.0.1:5600,tcp://10.0.0.2:5600
 */
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wss_kv.h>

enum { ACCOUNTS = 5, THREADS = 3, TRANSFERS = 100, START = 1000 };

static struct wss_kv* kv;
static int started_again[THREADS];

struct account {
    char key[32], value[32];
};

static long balance(const struct wss_kv_read* read) {
    return read->found ? strtol(read->value, NULL, 10) : 0;
}

static struct wss_kv_write write_of(struct account* account, long balance) {
    snprintf(account->value, sizeof account->value, "%ld", balance);
    return (struct wss_kv_write){account->key, strlen(account->key), account->value, strlen(account->value), 0};
}

/* Moves `amount`. Returns 0, or -EAGAIN if another client has written one of the accounts since it was read. */
static int try_to_move(int from, int to, long amount) {
    struct account accounts[2];
    snprintf(accounts[0].key, sizeof accounts[0].key, "account:%d", from);
    snprintf(accounts[1].key, sizeof accounts[1].key, "account:%d", to);
    struct wss_kv_read reads[2] = {{.key = accounts[0].key, .key_length = strlen(accounts[0].key)},
                                   {.key = accounts[1].key, .key_length = strlen(accounts[1].key)}};
    struct wss_kv_condition unchanged[2];

    if (wss_kv_get_all(kv, reads, 2) < 0) errx(1, "%s", wss_kv_error());
    wss_kv_watch(reads, 2, unchanged);
    struct wss_kv_write writes[2] = {write_of(&accounts[0], balance(&reads[0]) - amount),
                                     write_of(&accounts[1], balance(&reads[1]) + amount)};
    wss_kv_release(reads, 2);
    return wss_kv_put_all_if(kv, writes, 2, 0, unchanged, 2, NULL, NULL);
}

static void* transfer(void* number) {
    int* again = number;
    unsigned seed = (unsigned)(again - started_again) + 1;

    for (int i = 0; i < TRANSFERS; ++i) {
        int from = rand_r(&seed) % ACCOUNTS, to = (from + 1 + rand_r(&seed) % (ACCOUNTS - 1)) % ACCOUNTS;
        int result;
        while ((result = try_to_move(from, to, 1 + rand_r(&seed) % 10)) == -EAGAIN) ++*again;
        if (result < 0) errx(1, "%s", wss_kv_error());
    }
    return NULL;
}

int main(int argc, char** argv) {
    struct wss_kv_options options = {.size = sizeof options, .threads = THREADS};
    struct account accounts[ACCOUNTS];
    struct wss_kv_write writes[ACCOUNTS];
    struct wss_kv_read reads[ACCOUNTS] = {{0}};
    pthread_t threads[THREADS];
    long sum = 0;
    int again = 0;

    if (argc != 2) errx(2, "usage: transfer TARGET[,TARGET...]");
    if (wss_kv_connect(argv[1], &options, &kv) < 0) errx(1, "%s", wss_kv_error());
    for (int i = 0; i < ACCOUNTS; ++i) {
        snprintf(accounts[i].key, sizeof accounts[i].key, "account:%d", i);
        writes[i] = write_of(&accounts[i], START);
        reads[i].key = accounts[i].key;
        reads[i].key_length = strlen(accounts[i].key);
    }
    if (wss_kv_put_all(kv, writes, ACCOUNTS, 0, NULL) < 0) errx(1, "%s", wss_kv_error());
    for (int i = 0; i < THREADS; ++i)
        if (pthread_create(&threads[i], NULL, transfer, &started_again[i]) != 0) errx(1, "no thread");
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(threads[i], NULL);
        again += started_again[i];
    }
    if (wss_kv_get_all(kv, reads, ACCOUNTS) < 0) errx(1, "%s", wss_kv_error());
    for (int i = 0; i < ACCOUNTS; ++i) sum += balance(&reads[i]);
    wss_kv_release(reads, ACCOUNTS);
    wss_kv_disconnect(kv);
    printf("%d transfers started again\n%ld in all accounts\n", again, sum);
    return sum != (long)ACCOUNTS * START;
}
