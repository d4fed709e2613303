"""Signals: Fourier transforms, spectra, sound."""
