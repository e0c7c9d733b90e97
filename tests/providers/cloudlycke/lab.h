/* lab.h: an inventory file in a temporary folder, and a host that records its calls.
 *
 * Tests change the file for real and wait for what they expect, at most 10 s.
 */
#ifndef CCMD_TESTS_CLOUDLYCKE_LAB_H
#define CCMD_TESTS_CLOUDLYCKE_LAB_H

#include <pthread.h>

#include "cloud/host.h"

struct lab {
	char folder[64];
	char path[96]; /* folder/inventory.yaml */
	struct cloud_host host;
	pthread_mutex_t mu;
	pthread_cond_t changed;
	unsigned n_wakes;   /* mu */
	unsigned n_events;  /* mu */
	char reason[64];    /* mu; of the last event */
	char message[4096]; /* mu */
	int log_fds[2];
	struct buf log; /* read so far */
};

extern const struct cloud_ops cloudlycke_cloud;

#define LAB_HEAD "apiVersion: cloudlycke.io/v1alpha1\nkind: Inventory\n"
/** Reload settings for tests of inotify alone, and of polling alone in a file system that could do
 * both. */
#define LAB_QUICK "reload: {debounce: 10ms, poll: 0}\n"

/** For setup and teardown: a folder, and the log caught; *state is the lab. */
int lab_setup(void **state);
int lab_teardown(void **state);

/** Replaces a file of the folder by renaming another over it. The new one is a second old, so that
 * a reader does not wait to see whether it is still being written. */
void lab_put(struct lab *lab, const char *name, const char *text);
/** Truncates it and writes it again; text NULL: only truncates. */
void lab_overwrite(struct lab *lab, const char *name, const char *text);
/** LAB_HEAD, LAB_QUICK and the text to inventory.yaml, by renaming. */
void lab_write(struct lab *lab, const char *text);
/** LAB_HEAD, LAB_QUICK and n machines n0/m0, n1/m1, …, then the text. */
void lab_machines(struct lab *lab, unsigned n, const char *text);

/** Waits until the log has a line with that text that was not waited for before. */
void lab_wait_log(struct lab *lab, const char *text);
/** Has the log had it so far? */
bool lab_has_logged(struct lab *lab, const char *text);
/** Waits for the n-th event, and checks its reason and message. */
void lab_wait_event(struct lab *lab, unsigned n, const char *reason, const char *message);
void lab_wait_wakes(struct lab *lab, unsigned n);
unsigned lab_count_wakes(struct lab *lab);

/** The present value of a series, "name{label=\"x\"}". */
double lab_metric(const char *series);

/** Loads and starts the provider. */
bool lab_try_open(struct lab *lab, const struct cloud_config *config, struct cloud **ret,
                  struct error *err);
/** The same on the lab's file; fails the test when it cannot. */
struct cloud *lab_open(struct lab *lab);

/** What a look says about one node. */
struct lab_answer {
	enum presence presence;
	enum power power;
	enum err_code code;
	char error[1000];
};
struct lab_answer lab_look(struct cloud *cloud, const char *name, const char *provider_id);

#endif
