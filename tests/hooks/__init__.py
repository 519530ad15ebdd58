"""Inbound webhooks: signatures, templates, what they bring, and what holds whatever they bring."""
