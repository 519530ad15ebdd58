"""Approvals: what agents ask people for, shown, decided and carried out."""
