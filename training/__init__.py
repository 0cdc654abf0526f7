"""Tool of the project that trains the embedded pair of models; it is not part of the wheel.

``python -m training --help`` lists the steps; README.md beside this file describes them.
"""
