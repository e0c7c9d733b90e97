/* check.h: the rules for the values of an inventory, and for addresses that must not occur twice.
 *
 * The rules are Kubernetes' own where the value ends up there: a name or label that the API server
 * would refuse must not get past this file.
 *
 * There may be thousands of address pools with a million addresses: they are checked by sorting
 * their blocks, and addresses are not checked one by one.
 */
#ifndef CCMD_CLOUDLYCKE_CHECK_H
#define CCMD_CLOUDLYCKE_CHECK_H

#include "providers/cloudlycke/inventory.h"
#include "providers/cloudlycke/reader.h"

extern const struct cl_rule cl_rule_node_name;
extern const struct cl_rule cl_rule_machine_id;
extern const struct cl_rule cl_rule_label_value;
extern const struct cl_rule cl_rule_address_type;
extern const struct cl_rule cl_rule_pool_name;
extern const struct cl_rule cl_rule_namespace;
extern const struct cl_rule cl_rule_hostname_template;

extern const struct cl_rule cl_rule_power;
extern const struct cl_rule cl_rule_unknown_machines;
extern const struct cl_rule cl_rule_ip_mode;

extern const struct cl_rule cl_rule_debounce;
extern const struct cl_rule cl_rule_poll;
extern const struct cl_rule cl_rule_hook_timeout;

/* For cl_field.read, like those of reader.h. Counts and quantities are informative: checked, and
 * not kept. */
void cl_read_address(struct cl_reader *r, const struct cl_field *field,
                     const struct yaml_node *node, void *into);
void cl_read_power(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                   void *into);
void cl_read_percent(struct cl_reader *r, const struct cl_field *field,
                     const struct yaml_node *node, void *into);
void cl_read_count(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                   void *into);
void cl_read_quantity(struct cl_reader *r, const struct cl_field *field,
                      const struct yaml_node *node, void *into);
void cl_read_hook(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                  void *into);
/** An absolute path of letters, digits and "._-/", fit for the files of other programs. */
void cl_read_plain_path(struct cl_reader *r, const struct cl_field *field,
                        const struct yaml_node *node, void *into);
/** A list of at least one word, the program first; into struct str_list. */
void cl_read_command(struct cl_reader *r, const struct cl_field *field,
                     const struct yaml_node *node, void *into);
void cl_read_labels(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                    void *into);

/** "192.168.20.240-192.168.20.250", "198.51.100.0/29", "fd00::1"; into struct cl_blocks. */
void cl_read_blocks(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                    void *into);

/** Adds a problem for each pool that is too large, overlaps with another one, or has the address of
 * a machine. node is the list of pools. */
void cl_check_pools(struct cl_reader *r, const struct yaml_node *node,
                    const struct cl_schema *schema);

#endif
