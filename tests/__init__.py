"""The tests, which read what stores hold by statements of their own."""

import apsw

from daycare.store.sqlite.packing import add_functions

apsw.connection_hooks.append(add_functions)
