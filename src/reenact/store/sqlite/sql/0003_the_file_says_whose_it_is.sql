-- "Reen". A database without it is none of ours, and is never written to.
PRAGMA application_id = 1382376814;
