/* hetzner_catalog.c: what Hetzner sells and where, as in tests/sim/catalog.py. */
#include <string.h>

#include "hetzner_internal.h"

const struct hetzner_location hm_locations[HM_N_LOCATIONS] = {
	{ 1, "fsn1", "eu-central", "Falkenstein DC Park 1", "DE", "Falkenstein", "50.47612",
	  "12.370071" },
	{ 2, "nbg1", "eu-central", "Nuremberg DC Park 1", "DE", "Nuremberg", "49.452102",
	  "11.076665" },
	{ 3, "hel1", "eu-central", "Helsinki DC Park 1", "FI", "Helsinki", "60.169855",
	  "24.938379" },
	{ 4, "ash", "us-east", "Ashburn, VA", "US", "Ashburn, VA", "39.045821", "-77.487073" },
	{ 5, "hil", "us-west", "Hillsboro, OR", "US", "Hillsboro, OR", "45.54222", "-122.951924" },
	{ 6, "sin", "ap-southeast", "Singapore", "SG", "Singapore", "1.283333", "103.833333" },
};

const struct hetzner_balancer_type hm_balancer_types[HM_N_BALANCER_TYPES] = {
	{ 1, "lb11", 10000, 5, 25, 10, 5.39, 0, 0 },
	{ 2, "lb21", 20000, 15, 75, 25, 16.40, 0, 0 },
	{ 3, "lb31", 40000, 30, 150, 50, 32.90, 0, 0 },
};

static const struct hetzner_server_type server_types[] = {
	{ 104, "cx22", "x86", 2, 4, 40, 3.29 },
	{ 105, "cx32", "x86", 4, 8, 80, 5.83 },
	{ 45, "cax11", "arm", 2, 4, 40, 3.29 },
};

const struct hetzner_server_type *
hm_server_type(const char *name)
{
	for (size_t i = 0; i < sizeof(server_types) / sizeof(server_types[0]); i++) {
		if (strcmp(server_types[i].name, name) == 0)
			return &server_types[i];
	}
	return NULL;
}

/* A number names an ID, a text an ID or a name. */
static bool
hm_is_named(yyjson_val *wanted, int64_t id, const char *name)
{
	int64_t number;

	if (yyjson_is_int(wanted))
		return yyjson_get_sint(wanted) == id;
	return str_eq_c(json_text(wanted), name) ||
	       (str_is_digits(json_text(wanted)) && json_text(wanted).ptr[0] != '0' &&
	        str_to_i64(json_text(wanted), 1, INT64_MAX, &number) && number == id);
}

const struct hetzner_location *
hm_find_location(yyjson_val *wanted)
{
	for (size_t i = 0; i < HM_N_LOCATIONS; i++) {
		if (hm_is_named(wanted, hm_locations[i].id, hm_locations[i].name))
			return &hm_locations[i];
	}
	return NULL;
}

const struct hetzner_balancer_type *
hm_find_type(const struct hetzner *h, yyjson_val *wanted)
{
	for (size_t i = 0; i < HM_N_BALANCER_TYPES; i++) {
		if (hm_is_named(wanted, h->types[i].id, h->types[i].name))
			return &h->types[i];
	}
	return NULL;
}

/* ---- requests ---- */

static int64_t
hm_asked_id(const struct hm_call *call)
{
	int64_t id;

	return str_is_digits(call->id) && str_to_i64(call->id, 0, INT64_MAX, &id) ? id : -1;
}

static int64_t
hm_location_number(const void *thing, struct str field)
{
	(void)field;
	return ((const struct hetzner_location *)thing)->id;
}

static struct str
hm_location_text(const void *thing, struct str field)
{
	(void)field;
	return str_c(((const struct hetzner_location *)thing)->name);
}

static void
hm_add_listed_location(struct hm_call *call, struct buf *b, const void *thing)
{
	(void)call;
	hm_add_location(b, NULL, thing);
}

bool
hm_list_locations(struct hm_call *call)
{
	static const struct hm_list list = { "locations", false, hm_location_number,
		                             hm_location_text, hm_add_listed_location };
	const void *things[HM_N_LOCATIONS];

	for (size_t i = 0; i < HM_N_LOCATIONS; i++)
		things[i] = &hm_locations[i];
	return hm_answer_list(call, &list, things, HM_N_LOCATIONS);
}

bool
hm_show_location(struct hm_call *call)
{
	struct buf *b = &call->answer->body;
	int64_t id = hm_asked_id(call);

	for (size_t i = 0; i < HM_N_LOCATIONS; i++) {
		if (hm_locations[i].id != id)
			continue;
		json_begin_object(b, NULL);
		hm_add_location(b, "location", &hm_locations[i]);
		json_end_object(b);
		return true;
	}
	return hm_refuse(call, "not_found", "location with ID '%" STR_FMT "' not found",
	                 STR_ARG(call->id));
}

static int64_t
hm_type_number(const void *thing, struct str field)
{
	(void)field;
	return ((const struct hetzner_balancer_type *)thing)->id;
}

static struct str
hm_type_text(const void *thing, struct str field)
{
	(void)field;
	return str_c(((const struct hetzner_balancer_type *)thing)->name);
}

static void
hm_add_listed_type(struct hm_call *call, struct buf *b, const void *thing)
{
	(void)call;
	hm_add_balancer_type(b, NULL, thing);
}

bool
hm_list_types(struct hm_call *call)
{
	static const struct hm_list list = { "load_balancer_types", false, hm_type_number,
		                             hm_type_text, hm_add_listed_type };
	const void *things[HM_N_BALANCER_TYPES];

	for (size_t i = 0; i < HM_N_BALANCER_TYPES; i++)
		things[i] = &call->h->types[i];
	return hm_answer_list(call, &list, things, HM_N_BALANCER_TYPES);
}

bool
hm_show_type(struct hm_call *call)
{
	struct buf *b = &call->answer->body;
	int64_t id = hm_asked_id(call);

	for (size_t i = 0; i < HM_N_BALANCER_TYPES; i++) {
		if (call->h->types[i].id != id)
			continue;
		json_begin_object(b, NULL);
		hm_add_balancer_type(b, "load_balancer_type", &call->h->types[i]);
		json_end_object(b);
		return true;
	}
	return hm_refuse(call, "not_found", "load balancer type with ID '%" STR_FMT "' not found",
	                 STR_ARG(call->id));
}
